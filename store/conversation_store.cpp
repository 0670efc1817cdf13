// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_store.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "store/response_checksum.hpp"

namespace troupe {
namespace {

// What is read of a response, in this order, but for its messages.
constexpr std::string_view kSelect =
    "SELECT r.number, r.previous, p.id, r.id, r.tenant, r.created, r.expires, r.model, r.instructions, "
    "r.settings, r.output, r.is_complete, r.prompt_tokens, r.completion_tokens, r.cached_tokens, "
    "r.vocabulary, r.extends_previous, r.tokens, r.checksum "
    "FROM response r LEFT JOIN response p ON p.number = r.previous ";

struct Row {
  std::int64_t number = 0;
  std::optional<std::int64_t> previous;
  std::uint64_t checksum = 0;
  StoredResponse response;
};

// What was asked for can't be had; the database itself is well.
struct Refusal {
  StoreError error;
};

[[noreturn]] void refuse(StoreFault fault, std::string message) {
  throw Refusal{{.fault = fault, .message = std::move(message)}};
}

[[noreturn]] void refuse_unknown() { refuse(StoreFault::kNotFound, "there is no such response"); }

[[noreturn]] void refuse_damaged(const std::string& what) { refuse(StoreFault::kDamaged, what); }

StoreError error_of(const SqliteError& error) {
  StoreFault fault = StoreFault::kUnusable;
  switch (error.primary_code()) {
    case SQLITE_FULL: fault = StoreFault::kFull; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: fault = StoreFault::kBusy; break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: fault = StoreFault::kDamaged; break;
    default: break;
  }
  return {.fault = fault, .message = error.what()};
}

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

Row read_row(const SqliteStatement& statement) {
  Row row;
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

// With its messages, and only if it is what was written.
Row complete(const SqliteDatabase& database, Row row) {
  SqliteStatement messages(database,
                           "SELECT role, content FROM message WHERE response = ? ORDER BY position");
  messages.bind(row.number);
  while (messages.step()) row.response.input.push_back({messages.text(0), messages.text(1)});
  // References that only go back can't go round in circles.
  const bool goes_back = !row.previous || *row.previous < row.number;
  if (!goes_back || row.checksum != checksum_of(row.response))
    refuse_damaged("the response of row " + std::to_string(row.number) + " is not what was written");
  return row;
}

std::optional<Row> find_row(const SqliteDatabase& database, std::string_view tenant, std::string_view id,
                            std::int64_t now) {
  const auto sql =
      std::string(kSelect) + "WHERE r.id = ? AND r.tenant = ? AND r.is_deleted = 0 AND r.expires > ?";
  SqliteStatement statement(database, sql);
  statement.bind(id).bind(tenant).bind(now);
  if (!statement.step()) return std::nullopt;
  return read_row(statement);
}

std::optional<Row> row_at(const SqliteDatabase& database, std::int64_t number) {
  SqliteStatement statement(database, std::string(kSelect) + "WHERE r.number = ?");
  statement.bind(number);
  if (!statement.step()) return std::nullopt;
  return read_row(statement);
}

// Newest first.
std::vector<StoredResponse> read_chain(const SqliteDatabase& database, Row newest, std::size_t max_turns) {
  std::vector<StoredResponse> turns;
  for (auto row = complete(database, std::move(newest));;) {
    turns.push_back(std::move(row.response));
    if (!row.previous) return turns;
    if (turns.size() >= max_turns)
      refuse(StoreFault::kTooLong, "the conversation has more than " + std::to_string(max_turns) + " turns");
    auto previous = row_at(database, *row.previous);
    if (!previous) refuse_damaged("a response that another continues is gone");
    row = complete(database, std::move(*previous));
  }
}

Conversation conversation_of(std::vector<StoredResponse> turns) {
  Conversation conversation;
  conversation.instructions = turns.front().instructions;
  conversation.vocabulary = turns.front().vocabulary;
  // Tokens go back as far as each turn only added to those before it.
  auto first = turns.begin();
  while (first->extends_previous && std::next(first) != turns.end()) ++first;
  if (first->extends_previous) refuse_damaged("tokens of a conversation's beginning are missing");
  for (auto turn = std::make_reverse_iterator(std::next(first)); turn != turns.rend(); ++turn)
    conversation.tokens.insert(conversation.tokens.end(), turn->tokens.begin(), turn->tokens.end());
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    std::move(turn->input.begin(), turn->input.end(), std::back_inserter(conversation.messages));
    conversation.messages.push_back({"assistant", std::move(turn->output)});
  }
  return conversation;
}

std::optional<std::int64_t> number_of(const SqliteDatabase& database, std::string_view tenant,
                                      std::string_view id) {
  SqliteStatement statement(database, "SELECT number FROM response WHERE id = ? AND tenant = ?");
  statement.bind(id).bind(tenant);
  if (!statement.step()) return std::nullopt;
  return statement.integer(0);
}

void insert_messages(const SqliteDatabase& database, std::int64_t response,
                     const std::vector<StoredMessage>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    SqliteStatement statement(database, "INSERT INTO message VALUES(?, ?, ?, ?)");
    statement.bind(response)
        .bind(static_cast<std::int64_t>(i))
        .bind(messages[i].role)
        .bind(messages[i].content);
    statement.run();
  }
}

void insert(const SqliteDatabase& database, const StoredResponse& response) {
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
  insert_messages(database, database.last_row(), response.input);
}

bool is_continued(const SqliteDatabase& database, std::int64_t number) {
  SqliteStatement statement(database, "SELECT 1 FROM response WHERE previous = ? LIMIT 1");
  return statement.bind(number).step();
}

bool is_hidden(const SqliteDatabase& database, std::int64_t number, std::int64_t now) {
  SqliteStatement statement(database,
                            "SELECT 1 FROM response WHERE number = ? AND (is_deleted = 1 OR expires <= ?)");
  return statement.bind(number).bind(now).step();
}

std::optional<std::int64_t> previous_of(const SqliteDatabase& database, std::int64_t number) {
  SqliteStatement statement(database, "SELECT previous FROM response WHERE number = ?");
  if (!statement.bind(number).step() || statement.is_null(0)) return std::nullopt;
  return statement.integer(0);
}

void run(const SqliteDatabase& database, std::string_view sql, std::int64_t number) {
  SqliteStatement(database, sql).bind(number).run();
}

// Nothing continues it; what it continued may have been kept for its sake only.
std::size_t remove_with_ancestors(const SqliteDatabase& database, std::int64_t number, std::int64_t now) {
  for (std::size_t num_removed = 1;; ++num_removed) {
    const auto previous = previous_of(database, number);
    run(database, "DELETE FROM message WHERE response = ?", number);
    run(database, "DELETE FROM response WHERE number = ?", number);
    const bool goes_on = previous && *previous < number && is_hidden(database, *previous, now) &&
                         !is_continued(database, *previous);
    if (!goes_on) return num_removed;
    number = *previous;
  }
}

std::vector<std::int64_t> expired_leaves(const SqliteDatabase& database, std::int64_t now,
                                         std::size_t at_most) {
  SqliteStatement statement(
      database,
      "SELECT number FROM response r WHERE expires <= ? AND NOT EXISTS "
      "(SELECT 1 FROM response c WHERE c.previous = r.number) ORDER BY expires LIMIT ?");
  statement.bind(now).bind(static_cast<std::int64_t>(at_most));
  std::vector<std::int64_t> numbers;
  while (statement.step()) numbers.push_back(statement.integer(0));
  return numbers;
}

}  // namespace

ConversationStore::ConversationStore(const StateDirectory& directory, const ConversationStoreOptions& options)
    : max_turns_(options.max_turns), database_(open_conversation_file(directory, options.file)) {}

ConversationStore::~ConversationStore() = default;

template <class Function>
auto ConversationStore::guarded(Function function) -> std::variant<decltype(function()), StoreError> {
  try {
    return function();
  } catch (Refusal& refusal) {
    return std::move(refusal.error);
  } catch (const SqliteError& error) {
    auto result = error_of(error);
    is_broken_ = is_broken_ || result.fault == StoreFault::kDamaged;
    return result;
  }
}

std::vector<std::optional<StoreError>> ConversationStore::save(
    std::span<const StoredResponse* const> responses) {
  auto saved = guarded([&] {
    std::vector<std::optional<StoreError>> results(responses.size());
    SqliteTransaction transaction(*database_);
    for (std::size_t i = 0; i < responses.size(); ++i) {
      try {
        insert(*database_, *responses[i]);
      } catch (const Refusal& refusal) {
        results[i] = refusal.error;
      }
    }
    transaction.commit();
    return results;
  });
  if (auto* error = std::get_if<StoreError>(&saved)) return {responses.size(), *error};
  return std::get<0>(std::move(saved));
}

std::optional<StoreError> ConversationStore::save(const StoredResponse& response) {
  const std::array one = {&response};
  return save(one).front();
}

std::variant<StoredResponse, StoreError> ConversationStore::find(std::string_view tenant, std::string_view id,
                                                                 std::int64_t now) {
  return guarded([&] {
    auto row = find_row(*database_, tenant, id, now);
    if (!row) refuse_unknown();
    return complete(*database_, std::move(*row)).response;
  });
}

std::variant<Conversation, StoreError> ConversationStore::read_conversation(std::string_view tenant,
                                                                            std::string_view id,
                                                                            std::int64_t now) {
  return guarded([&] {
    auto row = find_row(*database_, tenant, id, now);
    if (!row) refuse_unknown();
    return conversation_of(read_chain(*database_, std::move(*row), max_turns_));
  });
}

std::optional<StoreError> ConversationStore::remove(std::string_view tenant, std::string_view id,
                                                    std::int64_t now) {
  const auto removed = guarded([&] {
    SqliteTransaction transaction(*database_);
    const auto row = find_row(*database_, tenant, id, now);
    if (!row) refuse_unknown();
    if (is_continued(*database_, row->number)) {
      run(*database_, "UPDATE response SET is_deleted = 1 WHERE number = ?", row->number);
    } else {
      remove_with_ancestors(*database_, row->number, now);
    }
    transaction.commit();
    return true;
  });
  if (const auto* error = std::get_if<StoreError>(&removed)) return *error;
  return std::nullopt;
}

std::variant<std::size_t, StoreError> ConversationStore::purge(std::int64_t now, std::size_t at_most) {
  return guarded([&] {
    const auto leaves = expired_leaves(*database_, now, at_most);
    if (leaves.empty()) return std::size_t{0};
    SqliteTransaction transaction(*database_);
    std::size_t num_removed = 0;
    for (const auto number : leaves) num_removed += remove_with_ancestors(*database_, number, now);
    transaction.commit();
    return num_removed;
  });
}

}  // namespace troupe
