// SPDX-License-Identifier: Apache-2.0
// Keeps responses in one SQLite file of the state directory. A saved response is
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
// damaged is renamed and a new one begun with what could be read of it.
//
// A sync that fails says nothing certain of what was written before it, and the
// next one that works says as little: from then on the store is read-only.
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
  bool is_read_only = false;     // a sync has failed before, in this process
};

// Tokens that were run one behind the other for responses that are gone, but for the
// first num_kept, which are of responses that stay.
struct RemovedRun {
  std::vector<std::int32_t> tokens;
  std::size_t num_kept = 0;
};

// A response that is gone, with those that were kept for its sake only. Turns that each
// extend the one before have one run together.
struct RemovedResponse {
  std::vector<RemovedRun> runs;  // the newest first; none: unknown
};

// Times are Unix seconds.
class ConversationStore {
 public:
  // Throws std::runtime_error if the file can't be opened for writing.
  ConversationStore(const StateDirectory& directory, const ConversationStoreOptions& options);
  ~ConversationStore();

  // All in one transaction, durable when this returns; one result each. The
  // response that one continues must still be there (kNotFound).
  std::vector<std::optional<StoreError>> save(std::span<const StoredResponse* const> responses);
  std::optional<StoreError> save(const StoredResponse& response);

  std::variant<StoredResponse, StoreError> find(std::string_view tenant, std::string_view id,
                                                std::int64_t now);
  std::variant<Conversation, StoreError> read_conversation(std::string_view tenant, std::string_view id,
                                                           std::int64_t now);
  // Its bytes are in the log until overwrite_removed().
  std::variant<RemovedResponse, StoreError> remove(std::string_view tenant, std::string_view id,
                                                   std::int64_t now);

  // Nothing of what was removed, and not kept for another response's sake, is in
  // the files any more.
  std::optional<StoreError> overwrite_removed();

  // Deletes up to so many expired responses that nothing continues; how many.
  std::variant<std::size_t, StoreError> purge(std::int64_t now, std::size_t at_most);

  // The file turned out to be damaged: this object is to be made anew with
  // ConversationFileOptions::is_damaged.
  bool is_broken() const { return is_broken_; }
  // A sync failed: the next object is to be made with ConversationStoreOptions::is_read_only.
  bool is_read_only() const { return is_read_only_; }
  // The file was damaged when it was opened.
  const std::optional<FileDamage>& damage() const { return damage_; }

 private:
  template <class Function>
  auto guarded(Function function) -> std::variant<decltype(function()), StoreError>;
  template <class Function>
  auto guarded_write(Function function) -> std::variant<decltype(function()), StoreError>;
  StoreError error_of(const SqliteError& error);

  const std::size_t max_turns_;
  std::unique_ptr<SqliteDatabase> database_;
  std::optional<FileDamage> damage_;
  bool is_broken_ = false;
  bool is_read_only_;
};

}  // namespace troupe
