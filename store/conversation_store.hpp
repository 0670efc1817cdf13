// SPDX-License-Identifier: Apache-2.0
// Keeps responses in one SQLite file of the state directory. What was saved is
// there after a crash of the process or the machine: the write-ahead log is
// synced at every commit (synchronous=FULL), which costs one fsync for all the
// responses saved together and no more than that.
//
// A response continues at most one other, so they form trees; each holds only
// what it added. One that is deleted or expired can no longer be found, but
// stays as long as another that can be continues it.
//
// The file is read as hostile input: its schema must be ours to the letter,
// each response carries a checksum, references only go back. A file that is
// damaged is renamed and a new one begun.
//
// Blocks on the disk. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "store/conversation_file.hpp"
#include "store/state_directory.hpp"
#include "store/store_error.hpp"
#include "store/stored_response.hpp"

namespace troupe {

struct ConversationStoreOptions {
  ConversationFileOptions file;
  std::size_t max_turns = 2048;  // of a conversation
};

// Times are Unix seconds.
class ConversationStore {
 public:
  // Throws std::runtime_error if the file can't be opened for writing.
  ConversationStore(const StateDirectory& directory, const ConversationStoreOptions& options);
  ~ConversationStore();

  // All in one transaction, durable when this returns; one result each. What a
  // response continues must still be there (kNotFound).
  std::vector<std::optional<StoreError>> save(std::span<const StoredResponse* const> responses);
  std::optional<StoreError> save(const StoredResponse& response);

  std::variant<StoredResponse, StoreError> find(std::string_view tenant, std::string_view id,
                                                std::int64_t now);
  std::variant<Conversation, StoreError> read_conversation(std::string_view tenant, std::string_view id,
                                                           std::int64_t now);
  std::optional<StoreError> remove(std::string_view tenant, std::string_view id, std::int64_t now);

  // Deletes up to so many expired responses that nothing continues; how many.
  std::variant<std::size_t, StoreError> purge(std::int64_t now, std::size_t at_most);

  // The file turned out to be damaged: this object is to be made anew, which
  // puts the file aside.
  bool is_broken() const { return is_broken_; }

 private:
  template <class Function>
  auto guarded(Function function) -> std::variant<decltype(function()), StoreError>;

  const std::size_t max_turns_;
  std::unique_ptr<SqliteDatabase> database_;
  bool is_broken_ = false;
};

}  // namespace troupe
