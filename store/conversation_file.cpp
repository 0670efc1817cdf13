// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_file.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "store/conversation_schema.hpp"
#include "store/sqlite/sqlite_pages.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr int kInstructionsAProgressCall = 10'000;
constexpr int kMostFilesAside = 1000;
const std::string kName(kConversationFileName);
const std::string kLogName = kName + "-wal";
const std::string kSalvagingName = kName + ".salvaging";  // not complete
const std::string kSalvagedName = kName + ".salvaged";    // complete, to be renamed to kName

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

void configure(SqliteDatabase& database, const ConversationFileOptions& options) {
  // Hostile content: no triggers or views with side effects, no odd cells.
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  database.set_checkpoint_on_close(false);  // until it is known to be well
  database.set_busy_timeout(options.busy_timeout);
  // Exclusive: no other process changes it under us, and no shared memory is
  // mapped, which could find its disk full.
  database.execute(
      "PRAGMA page_size=4096;"
      "PRAGMA locking_mode=EXCLUSIVE;"
      "PRAGMA cell_size_check=ON;"
      "PRAGMA secure_delete=ON;"
      "PRAGMA temp_store=MEMORY;"
      "PRAGMA journal_mode=WAL;"
      "PRAGMA synchronous=FULL;"
      "PRAGMA journal_size_limit=16777216;");
  database.execute("PRAGMA max_page_count=" + std::to_string(options.max_bytes / SqlitePages::kPageSize));
}

struct CheckDeadline {
  std::chrono::steady_clock::time_point time;
  bool has_passed = false;
};

int is_over(void* deadline) {
  auto& check = *static_cast<CheckDeadline*>(deadline);
  check.has_passed = std::chrono::steady_clock::now() > check.time;
  return check.has_passed ? 1 : 0;
}

// The check tells of pages that can't be read as if they were damaged: "…
// error code=266". A disk that fails is no reason to give up what is on it.
bool is_about_reading(const std::string& finding) {
  constexpr std::string_view kMark = "error code=";
  const auto at = finding.find(kMark);
  if (at == std::string::npos) return false;
  int code = 0;
  std::from_chars(finding.data() + at + kMark.size(), finding.data() + finding.size(), code);
  return (code & 0xff) != SQLITE_CORRUPT;
}

// As far as there is time for it.
void check_integrity(const SqliteDatabase& database, std::chrono::milliseconds time) {
  if (time <= std::chrono::milliseconds(0)) return;
  CheckDeadline deadline{.time = std::chrono::steady_clock::now() + time};
  sqlite3_progress_handler(database.handle(), kInstructionsAProgressCall, is_over, &deadline);
  std::string result = "ok";
  try {
    SqliteStatement statement(database, "PRAGMA quick_check(1)");
    if (statement.step()) result = statement.text(0);
  } catch (const SqliteError&) {
    sqlite3_progress_handler(database.handle(), 0, nullptr, nullptr);
    if (!deadline.has_passed) throw;
    return;
  }
  sqlite3_progress_handler(database.handle(), 0, nullptr, nullptr);
  if (is_about_reading(result)) throw SqliteError(SQLITE_IOERR, result);
  if (result != "ok") throw UnusableFile(result);
}

bool exists(const StateDirectory& directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

// SQLite would wait on a pipe, write through a link and let others read. It gives
// its log the mode of the file.
void make_private(const StateDirectory& directory, const std::string& name, int flags) {
  constexpr mode_t kOwnerOnly = 0600;
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  const int file = ::openat(directory.descriptor(), name.c_str(), kFlags | flags, kOwnerOnly);
  if (file < 0 && errno == ENOENT) return;
  if (file < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
    throw UnusableFile("it is not a plain file");
  if (file < 0) fail(name);
  struct stat status {};
  const bool is_known = ::fstat(file, &status) == 0;
  const bool is_plain = is_known && S_ISREG(status.st_mode);
  const bool is_private =
      is_plain && ((status.st_mode & 0777) == kOwnerOnly || ::fchmod(file, kOwnerOnly) == 0);
  const int error = errno;
  ::close(file);
  errno = error;
  if (is_known && !is_plain) throw UnusableFile("it is not a plain file");
  if (!is_private) fail(name + " can't be made readable by its owner only");
}

// Finds damage that SQLite would not notice, or would make worse by opening the file.
void check_before_opening(const StateDirectory& directory) {
  for (const auto& name : {kLogName, kName + "-shm", kName}) make_private(directory, name, 0);
  const SqlitePages pages(directory.descriptor(), kName);
  check_version(pages);
  if (pages.is_log_damaged()) throw UnusableFile("its log is damaged");
  if (pages.is_file_empty() && pages.num_pages() > 0) throw UnusableFile("it is empty, and its log is not");
  make_private(directory, kName, O_CREAT);
}

// A log that a machine lost its power over is not built upon, and what was deleted
// does not stay in it. Without room on the disk it stays. False: a sync failed.
bool upgrade_and_empty_log(SqliteDatabase& database) {
  try {
    upgrade_schema(database);
    database.checkpoint();
    return true;
  } catch (const SqliteError& error) {
    if (error.primary_code() != SQLITE_FULL && error.primary_code() != SQLITE_IOERR) throw;
    log(LogLevel::kWarning, "the log of stored conversations can't be written back yet",
        {{"reason", error.what()}});
    return !error.is_failed_sync();
  }
}

ConversationFile open_checked(const StateDirectory& directory, const ConversationFileOptions& options) {
  check_before_opening(directory);
  bool is_synced = true;
  auto database = std::make_unique<SqliteDatabase>(directory.path() / kName, options.vfs);
  configure(*database, options);
  if (database->number("PRAGMA schema_version") == 0) {
    create_schema(*database);
  } else {
    check_schema(*database);
    check_integrity(*database, options.check_time);
    is_synced = upgrade_and_empty_log(*database);
  }
  database->set_checkpoint_on_close(true);
  return {.database = std::move(database), .damage = std::nullopt, .has_sync_failed = !is_synced};
}

bool rename_in(const StateDirectory& directory, const std::string& from, const std::string& to) {
  const int fd = directory.descriptor();
  if (::renameat2(fd, from.c_str(), fd, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno == ENOENT) return true;
  fail(from + " can't be renamed");
}

// The new path.
std::string put_aside(const StateDirectory& directory) {
  for (int number = 1; number <= kMostFilesAside; ++number) {
    const auto aside = kName + ".aside-" + std::to_string(number);
    if (exists(directory, aside) || exists(directory, aside + "-wal")) continue;
    if (!rename_in(directory, kName, aside)) continue;
    // SQLite finds what has not been written back yet by this name.
    rename_in(directory, kLogName, aside + "-wal");
    return (directory.path() / aside).string();
  }
  throw std::runtime_error("too many damaged files in " + directory.path().string());
}

void sync(const StateDirectory& directory, const std::string& name) {
  const int file = ::openat(directory.descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) fail(name);
  const bool is_synced = ::fsync(file) == 0;
  ::close(file);
  if (!is_synced) throw SqliteError(SQLITE_IOERR_FSYNC, name + " can't be synced");
}

// Renamings are on the disk then.
void sync(const StateDirectory& directory) {
  if (::fsync(directory.descriptor()) == 0) return;
  throw SqliteError(SQLITE_IOERR_DIR_FSYNC, directory.path().string() + " can't be synced");
}

// Into a file of its own, which has another name until it is complete.
Salvaged salvage_into_new_file(const StateDirectory& directory, const ConversationFileOptions& options) {
  ::unlinkat(directory.descriptor(), kSalvagingName.c_str(), 0);
  make_private(directory, kSalvagingName, O_CREAT | O_EXCL);
  Salvaged salvaged;
  try {
    const SqlitePages damaged(directory.descriptor(), kName);
    SqliteDatabase fresh(directory.path() / kSalvagingName, options.vfs);
    fresh.execute(
        "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY");
    create_schema(fresh);
    salvaged = salvage_responses(damaged, fresh, static_cast<std::int64_t>(std::time(nullptr)));
  } catch (...) {
    ::unlinkat(directory.descriptor(), kSalvagingName.c_str(), 0);
    throw;
  }
  sync(directory, kSalvagingName);
  rename_in(directory, kSalvagingName, kSalvagedName);
  sync(directory);  // a power cut behind the next renaming must find this one
  return salvaged;
}

// After a crash, too: the salvaged file is complete, the damaged one was renamed.
void begin_with_salvaged(const StateDirectory& directory) {
  if (exists(directory, kName)) {
    ::unlinkat(directory.descriptor(), kSalvagedName.c_str(), 0);
    return;
  }
  if (exists(directory, kLogName)) put_aside(directory);  // SQLite would read it into the new file
  if (!exists(directory, kSalvagedName)) return;
  rename_in(directory, kSalvagedName, kName);
  sync(directory);
}

// begin_with_salvaged() gives the new file its name.
FileDamage salvage_and_put_aside(const StateDirectory& directory, const ConversationFileOptions& options,
                                 const std::string& reason) {
  FileDamage damage{.reason = reason, .aside = {}, .salvaged = salvage_into_new_file(directory, options)};
  damage.aside = put_aside(directory);
  log(LogLevel::kError,
      "the file of stored conversations was damaged and put aside, what was readable is kept",
      {{"file", damage.aside},
       {"reason", reason},
       {"responses", damage.salvaged.num_responses},
       {"lost_for_certain", damage.salvaged.num_lost}});
  return damage;
}

bool is_damage(const SqliteError& error) {
  return error.primary_code() == SQLITE_CORRUPT || error.primary_code() == SQLITE_NOTADB;
}

}  // namespace

ConversationFile open_conversation_file(const StateDirectory& directory,
                                        const ConversationFileOptions& options) {
  begin_with_salvaged(directory);
  std::string reason = "it was found to be damaged when it was read";
  try {
    if (!options.is_damaged) return open_checked(directory, options);
  } catch (const SqliteError& error) {
    if (!is_damage(error)) throw;
    reason = error.what();
  } catch (const UnusableFile& unusable) {
    reason = unusable.what();
  }
  auto damage = salvage_and_put_aside(directory, options, reason);
  try {
    begin_with_salvaged(directory);
    auto file = open_checked(directory, options);
    file.damage = damage;
    return file;
  } catch (const SqliteError& error) {
    throw SalvagedNotOpened(error.code(), error.what(), std::move(damage));
  } catch (const std::runtime_error& error) {
    throw SalvagedNotOpened(SQLITE_CANTOPEN, error.what(), std::move(damage));
  }
}

std::optional<std::string> find_conversation_damage(const StateDirectory& directory) {
  const SqlitePages pages(directory.descriptor(), kName);
  if (pages.num_pages() == 0) return std::nullopt;
  check_version(pages);
  if (pages.is_log_damaged()) return "its log is damaged";
  if (pages.is_file_empty()) return "it is empty, and its log is not";
  if (!pages.is_log_empty()) return std::nullopt;  // SQLite reads it only by writing
  try {
    const auto database = SqliteDatabase::immutable(directory.path() / kName);
    check_schema(database);
    check_integrity(database, ConversationFileOptions{}.check_time);
    return std::nullopt;
  } catch (const SqliteError& error) {
    if (!is_damage(error)) throw;
    return error.what();
  } catch (const UnusableFile& unusable) {
    return unusable.what();
  }
}

void check_conversation_file_version(const StateDirectory& directory) {
  check_version(SqlitePages(directory.descriptor(), kName));
}

}  // namespace troupe
