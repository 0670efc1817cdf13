// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_store.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "store/response_rows.hpp"

namespace troupe {
namespace {

[[noreturn]] void refuse_unknown() { refuse(StoreFault::kNotFound, "there is no such response"); }

// A turn of a chain: its settings, which were needed for the checksum, are shown of a response alone, and
// may be long in each of many turns.
StoredResponse turn_of(ResponseRow row) {
  std::string().swap(row.response.settings);
  return std::move(row.response);
}

// Newest first; without their settings.
std::vector<StoredResponse> read_chain(const SqliteDatabase& database, ResponseRow newest,
                                       std::size_t max_turns) {
  std::vector<StoredResponse> turns;
  for (auto row = with_messages(database, std::move(newest));;) {
    const auto number = row.previous;
    turns.push_back(turn_of(std::move(row)));
    if (!number) return turns;
    if (turns.size() >= max_turns)
      refuse(StoreFault::kTooLong, "the conversation has more than " + std::to_string(max_turns) + " turns");
    auto previous = row_at(database, *number);
    if (!previous) refuse_damaged("a response that another continues is gone");
    row = with_messages(database, std::move(*previous));
  }
}

void check_beginning(const std::vector<StoredResponse>& turns) {
  if (std::all_of(turns.begin(), turns.end(), [](const auto& turn) { return turn.extends_previous; }))
    refuse_damaged("tokens of a conversation's beginning are missing");
}

// The last prompt and answer. They go back as far as each turn only added to those
// before it.
std::vector<std::int32_t> tokens_of(std::span<const StoredResponse> turns) {
  auto first = turns.begin();
  while (first->extends_previous && std::next(first) != turns.end()) ++first;
  std::vector<std::int32_t> tokens;
  for (auto turn = std::make_reverse_iterator(std::next(first)); turn != turns.rend(); ++turn)
    tokens.insert(tokens.end(), turn->tokens.begin(), turn->tokens.end());
  return tokens;
}

Conversation conversation_of(std::vector<StoredResponse> turns) {
  check_beginning(turns);
  Conversation conversation;
  conversation.instructions = turns.front().instructions;
  conversation.vocabulary = turns.front().vocabulary;
  conversation.tokens = tokens_of(turns);
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    std::move(turn->input.begin(), turn->input.end(), std::back_inserter(conversation.messages));
    if (turn->answer.empty()) conversation.messages.push_back({"assistant", std::move(turn->output)});
    std::move(turn->answer.begin(), turn->answer.end(), std::back_inserter(conversation.messages));
  }
  return conversation;
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

// Its newest turns; none where the conversation can't be read: it can be removed
// all the same.
std::vector<StoredResponse> readable_chain(const SqliteDatabase& database, const ResponseRow& newest,
                                           std::size_t max_turns) {
  try {
    auto turns = read_chain(database, newest, max_turns);
    check_beginning(turns);
    return turns;
  } catch (const StoreRefusal&) {
    return {};
  }
}

// The newest num_removed of these turns are gone.
RemovedResponse removed_of(std::span<const StoredResponse> turns, std::size_t num_removed) {
  RemovedResponse removed;
  const std::size_t end = std::min(num_removed, turns.size());
  for (std::size_t i = 0; i < end;) {
    RemovedRun run{.tokens = tokens_of(turns.subspan(i))};
    std::size_t num_gone = 0;
    for (bool goes_on = true; goes_on && i < end; ++i) {
      num_gone += turns[i].tokens.size();
      goes_on = turns[i].extends_previous;
    }
    run.num_kept = run.tokens.size() - num_gone;
    removed.runs.push_back(std::move(run));
  }
  return removed;
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
    : max_turns_(options.max_turns), is_read_only_(options.is_read_only) {
  auto file = open_conversation_file(directory, options.file);
  database_ = std::move(file.database);
  damage_ = std::move(file.damage);
  is_read_only_ = is_read_only_ || file.has_sync_failed;
}

ConversationStore::~ConversationStore() = default;

StoreError ConversationStore::error_of(const SqliteError& error) {
  StoreFault fault = StoreFault::kUnusable;
  switch (error.primary_code()) {
    case SQLITE_FULL: fault = StoreFault::kFull; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: fault = StoreFault::kBusy; break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: fault = StoreFault::kDamaged; break;
    default: break;
  }
  is_broken_ = is_broken_ || fault == StoreFault::kDamaged;
  is_read_only_ = is_read_only_ || error.is_failed_sync();
  return {.fault = fault, .message = error.what()};
}

template <class Function>
auto ConversationStore::guarded(Function function) -> std::variant<decltype(function()), StoreError> {
  try {
    return function();
  } catch (StoreRefusal& refusal) {
    return std::move(refusal.error);
  } catch (const SqliteError& error) {
    return error_of(error);
  }
}

template <class Function>
auto ConversationStore::guarded_write(Function function) -> std::variant<decltype(function()), StoreError> {
  if (is_read_only_) return StoreError{.fault = StoreFault::kReadOnly, .message = "a sync has failed before"};
  return guarded(std::move(function));
}

std::vector<std::optional<StoreError>> ConversationStore::save(
    std::span<const StoredResponse* const> responses) {
  auto saved = guarded_write([&] {
    std::vector<std::optional<StoreError>> results(responses.size());
    SqliteTransaction transaction(*database_);
    for (std::size_t i = 0; i < responses.size(); ++i) {
      try {
        insert_response(*database_, *responses[i]);
      } catch (const StoreRefusal& refusal) {
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
    return with_messages(*database_, std::move(*row)).response;
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

std::variant<RemovedResponse, StoreError> ConversationStore::remove(std::string_view tenant,
                                                                    std::string_view id, std::int64_t now) {
  return guarded_write([&] {
    SqliteTransaction transaction(*database_);
    const auto row = find_row(*database_, tenant, id, now);
    if (!row) refuse_unknown();
    RemovedResponse removed;
    if (is_continued(*database_, row->number)) {
      run(*database_, "UPDATE response SET is_deleted = 1 WHERE number = ?", row->number);
    } else {
      const auto turns = readable_chain(*database_, *row, max_turns_);
      removed = removed_of(turns, remove_with_ancestors(*database_, row->number, now));
    }
    transaction.commit();
    return removed;
  });
}

std::optional<StoreError> ConversationStore::overwrite_removed() {
  const auto done = guarded_write([&] {
    database_->checkpoint();
    return true;
  });
  if (const auto* error = std::get_if<StoreError>(&done)) return *error;
  return std::nullopt;
}

std::variant<std::size_t, StoreError> ConversationStore::purge(std::int64_t now, std::size_t at_most) {
  return guarded_write([&] {
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
