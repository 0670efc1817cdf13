// SPDX-License-Identifier: Apache-2.0
// Opens the SQLite file of conversations, which it does not trust: what is not
// a database of exactly our making is put aside under another name, with all
// that is in it, and a new one begun.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "store/sqlite.hpp"
#include "store/state_directory.hpp"

namespace troupe {

struct ConversationFileOptions {
  std::uint64_t max_bytes = 4ULL << 30;  // then it is full
  std::chrono::milliseconds busy_timeout{1000};
  // How long its integrity is checked when it is opened; what is not seen by
  // then is found when it is read.
  std::chrono::milliseconds check_time{2000};
  const char* vfs = nullptr;  // SQLite's name of it, for tests; null: the default
};

constexpr std::string_view kConversationFileName = "conversations.sqlite";

// Locked by us until it is closed. Throws SqliteError if it can't be opened for
// writing; std::runtime_error if a damaged file can't be put aside.
std::unique_ptr<SqliteDatabase> open_conversation_file(const StateDirectory& directory,
                                                       const ConversationFileOptions& options);

}  // namespace troupe
