// SPDX-License-Identifier: Apache-2.0
#include "store/response_rows.hpp"

#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {
namespace {

// Items of an answer are messages behind those of the input, with this before their role.
constexpr std::string_view kOfAnswer = "answer:";

// The columns read of a response, in this order; its messages are read apart.
constexpr std::string_view kSelect =
    "SELECT r.number, r.previous, p.id, r.id, r.tenant, r.created, r.expires, r.model, r.instructions, "
    "r.settings, r.output, r.is_complete, r.prompt_tokens, r.completion_tokens, r.cached_tokens, "
    "r.vocabulary, r.extends_previous, r.tokens, r.checksum, r.is_deleted "
    "FROM response r LEFT JOIN response p ON p.number = r.previous ";

std::vector<std::int32_t> tokens_of(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(std::int32_t) != 0) refuse_damaged("a list of tokens was cut");
  std::vector<std::int32_t> tokens(bytes.size() / sizeof(std::int32_t));
  if (!bytes.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

std::uint32_t count_of(std::int64_t number) {
  if (number < 0 || number > UINT32_MAX) refuse_damaged("a number of tokens is out of range");
  return static_cast<std::uint32_t>(number);
}

ResponseRow read_row(const SqliteStatement& statement) {
  if (statement.integer(19) == static_cast<std::int64_t>(ResponseState::kLost))
    refuse_damaged("the response was lost when the file was damaged");
  ResponseRow row;
  StoredResponse& response = row.response;
  row.number = statement.integer(0);
  if (!statement.is_null(1)) row.previous = statement.integer(1);
  response.previous = statement.text(2);
  response.id = statement.text(3);
  response.tenant = statement.text(4);
  response.created = statement.integer(5);
  response.expires = statement.integer(6);
  response.model = statement.text(7);
  response.instructions = statement.text(8);
  response.settings = statement.text(9);
  response.output = statement.text(10);
  response.is_complete = statement.integer(11) != 0;
  response.prompt_tokens = count_of(statement.integer(12));
  response.completion_tokens = count_of(statement.integer(13));
  response.cached_tokens = count_of(statement.integer(14));
  response.vocabulary = static_cast<std::uint64_t>(statement.integer(15));
  response.extends_previous = statement.integer(16) != 0;
  response.tokens = tokens_of(statement.bytes(17));
  row.checksum = static_cast<std::uint64_t>(statement.integer(18));
  return row;
}

std::optional<std::int64_t> number_of(const SqliteDatabase& database, std::string_view tenant,
                                      std::string_view id) {
  SqliteStatement statement(database, "SELECT number FROM response WHERE id = ? AND tenant = ?");
  statement.bind(id).bind(tenant);
  if (!statement.step()) return std::nullopt;
  return statement.integer(0);
}

void insert_message(const SqliteDatabase& database, std::int64_t response, std::size_t position,
                    std::string_view role, std::string_view content) {
  SqliteStatement statement(database, "INSERT INTO message VALUES(?, ?, ?, ?)");
  statement.bind(response).bind(static_cast<std::int64_t>(position)).bind(role).bind(content).run();
}

void insert_messages(const SqliteDatabase& database, std::int64_t number, const StoredResponse& response) {
  std::size_t position = 0;
  for (const auto& message : response.input)
    insert_message(database, number, position++, message.role, message.content);
  for (const auto& item : response.answer)
    insert_message(database, number, position++, std::string(kOfAnswer) + item.role, item.content);
}

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }

  Checksum& add(std::uint64_t number) {
    XXH3_64bits_update(&state_, &number, sizeof number);
    return *this;
  }
  Checksum& add(std::string_view text) {
    add(std::uint64_t{text.size()});
    XXH3_64bits_update(&state_, text.data(), text.size());
    return *this;
  }
  Checksum& add(const std::vector<std::int32_t>& tokens) {
    return add(
        std::string_view(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::int32_t)));
  }
  std::uint64_t result() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// XXH3 over all of it, each part with its length: tells a response from one that was changed on the disk.
std::uint64_t checksum_of(const StoredResponse& response) {
  Checksum checksum;
  checksum.add(response.id).add(response.previous).add(response.tenant);
  checksum.add(static_cast<std::uint64_t>(response.created));
  checksum.add(static_cast<std::uint64_t>(response.expires));
  checksum.add(response.model).add(response.instructions).add(response.settings).add(response.output);
  checksum.add(std::uint64_t{response.is_complete}).add(std::uint64_t{response.prompt_tokens});
  checksum.add(std::uint64_t{response.completion_tokens}).add(std::uint64_t{response.cached_tokens});
  checksum.add(response.vocabulary).add(std::uint64_t{response.extends_previous}).add(response.tokens);
  checksum.add(std::uint64_t{response.input.size()});
  for (const auto& message : response.input) checksum.add(message.role).add(message.content);
  // Version 1 of the file had no such answers.
  if (!response.answer.empty()) checksum.add(std::uint64_t{response.answer.size()});
  for (const auto& item : response.answer) checksum.add(item.role).add(item.content);
  return checksum.result();
}

}  // namespace

void refuse(StoreFault fault, std::string message) {
  throw StoreRefusal{{.fault = fault, .message = std::move(message)}};
}

void refuse_damaged(const std::string& what) { refuse(StoreFault::kDamaged, what); }

std::optional<ResponseRow> find_row(const SqliteDatabase& database, std::string_view tenant,
                                    std::string_view id, std::int64_t now) {
  // A lost one has no tenant any more.
  const auto sql =
      std::string(kSelect) +
      "WHERE r.id = ? AND (r.is_deleted = 2 OR (r.tenant = ? AND r.is_deleted = 0 AND r.expires > ?))";
  SqliteStatement statement(database, sql);
  statement.bind(id).bind(tenant).bind(now);
  if (!statement.step()) return std::nullopt;
  return read_row(statement);
}

std::optional<ResponseRow> row_at(const SqliteDatabase& database, std::int64_t number) {
  SqliteStatement statement(database, std::string(kSelect) + "WHERE r.number = ?");
  statement.bind(number);
  if (!statement.step()) return std::nullopt;
  return read_row(statement);
}

ResponseRow with_messages(const SqliteDatabase& database, ResponseRow row) {
  SqliteStatement messages(database,
                           "SELECT role, content FROM message WHERE response = ? ORDER BY position");
  messages.bind(row.number);
  while (messages.step()) {
    std::string role = messages.text(0);
    const bool is_of_answer = role.starts_with(kOfAnswer);
    if (is_of_answer) role.erase(0, kOfAnswer.size());
    auto& to = is_of_answer ? row.response.answer : row.response.input;
    to.push_back({std::move(role), messages.text(1)});
  }
  // References that only go back can't go round in circles.
  const bool goes_back = !row.previous || *row.previous < row.number;
  if (!goes_back || row.checksum != checksum_of(row.response))
    refuse_damaged("the response of row " + std::to_string(row.number) + " is not what was written");
  return row;
}

void insert_response(const SqliteDatabase& database, const StoredResponse& response) {
  // By a process that ended before it could take the answer out of the journal.
  if (number_of(database, response.tenant, response.id)) return;
  std::optional<std::int64_t> previous;
  if (!response.previous.empty()) {
    previous = number_of(database, response.tenant, response.previous);
    if (!previous) refuse(StoreFault::kNotFound, "the previous response has been deleted meanwhile");
  }
  SqliteStatement statement(
      database,
      "INSERT INTO response(previous, id, tenant, created, expires, is_deleted, model, instructions, "
      "settings, "
      "output, is_complete, prompt_tokens, completion_tokens, cached_tokens, vocabulary, extends_previous, "
      "tokens, checksum) VALUES(?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  previous ? statement.bind(*previous) : statement.bind_null();
  statement.bind(response.id).bind(response.tenant).bind(response.created).bind(response.expires);
  statement.bind(response.model).bind(response.instructions).bind(response.settings).bind(response.output);
  statement.bind(std::int64_t{response.is_complete}).bind(std::int64_t{response.prompt_tokens});
  statement.bind(std::int64_t{response.completion_tokens}).bind(std::int64_t{response.cached_tokens});
  statement.bind(static_cast<std::int64_t>(response.vocabulary))
      .bind(std::int64_t{response.extends_previous});
  statement.bind_bytes(std::as_bytes(std::span(response.tokens)));
  statement.bind(static_cast<std::int64_t>(checksum_of(response)));
  statement.run();
  insert_messages(database, database.last_row(), response);
}

}  // namespace troupe
