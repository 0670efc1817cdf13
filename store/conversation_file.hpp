// SPDX-License-Identifier: Apache-2.0
// Opens the SQLite file of conversations, which it does not trust: what is not
// a database of exactly our making is put aside under another name, with all
// that is in it, and a new one begun with the responses that could be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/sqlite/salvage.hpp"
#include "store/sqlite/sqlite.hpp"
#include "store/state_directory.hpp"

namespace troupe {

struct ConversationFileOptions {
  std::uint64_t max_bytes = 4ULL << 30;  // then it is full
  std::chrono::milliseconds busy_timeout{1000};
  // How long its integrity is checked when it is opened; what is not seen by
  // then is found when it is read.
  std::chrono::milliseconds check_time{2000};
  // It was found to be, when it was read: not to be opened as it is.
  bool is_damaged = false;
  const char* vfs = nullptr;  // SQLite's name of it, for tests; null: the default
};

constexpr std::string_view kConversationFileName = "conversations.sqlite";

struct FileDamage {
  std::string reason;
  std::string aside;  // where the damaged file is now
  Salvaged salvaged;
};

// The damaged file is put aside and what was salvaged of it is kept, but can't be
// opened yet: the next attempt is to be made without ConversationFileOptions::is_damaged.
class SalvagedNotOpened : public SqliteError {
 public:
  SalvagedNotOpened(int code, const std::string& what, FileDamage damage)
      : SqliteError(code, what), damage_(std::move(damage)) {}
  const FileDamage& damage() const { return damage_; }

 private:
  FileDamage damage_;
};

struct ConversationFile {
  std::unique_ptr<SqliteDatabase> database;
  std::optional<FileDamage> damage;  // it was begun anew
  bool has_sync_failed = false;      // while it was opened: nothing is to be written to it
};

// Locked by us until it is closed; readable by its owner only. Throws SqliteError
// if it can't be opened for writing or synced, and NewerFile (conversation_schema.hpp) if a
// later troupe wrote it: nothing is changed then. std::runtime_error if a damaged
// file can't be put aside, SalvagedNotOpened if its successor can't be opened.
ConversationFile open_conversation_file(const StateDirectory& directory,
                                        const ConversationFileOptions& options);

// Looks for damage of the file, as long as ConversationFileOptions::check_time; nullopt: there
// is none, or no file. Where commits wait in the log, as after a server that was killed, only
// the log is checked. Writes nothing and locks nothing. Throws NewerFile if a later troupe
// wrote it, SqliteError or std::system_error if it can't be read.
std::optional<std::string> find_conversation_damage(const StateDirectory& directory);

// Throws NewerFile if a later troupe wrote it. Changes nothing.
void check_conversation_file_version(const StateDirectory& directory);

}  // namespace troupe
