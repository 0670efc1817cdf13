// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_file.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kApplicationId = 0x74727570;  // "trup"
constexpr std::int64_t kSchemaVersion = 1;
constexpr int kInstructionsAProgressCall = 10'000;
constexpr int kMostFilesAside = 1000;

// The file is what SQLite keeps of these texts, to the letter.
constexpr std::array<const char*, 4> kSchema = {
    "CREATE TABLE response(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, "
    "previous INTEGER, created INTEGER NOT NULL, expires INTEGER NOT NULL, is_deleted INTEGER NOT NULL, "
    "model TEXT NOT NULL, instructions TEXT NOT NULL, settings TEXT NOT NULL, output TEXT NOT NULL, "
    "is_complete INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, "
    "cached_tokens INTEGER NOT NULL, vocabulary INTEGER NOT NULL, extends_previous INTEGER NOT NULL, "
    "tokens BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE message(response INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, "
    "content TEXT NOT NULL, PRIMARY KEY(response, position)) WITHOUT ROWID",
    "CREATE INDEX response_previous ON response(previous)",
    "CREATE INDEX response_expires ON response(expires)",
};

// It is no database, or none of ours.
struct UnusableFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::int64_t number_of(const SqliteDatabase& database, const std::string& pragma) {
  SqliteStatement statement(database, "PRAGMA " + pragma);
  return statement.step() ? statement.integer(0) : 0;
}

void configure(SqliteDatabase& database, const ConversationFileOptions& options) {
  // Hostile content: no triggers or views with side effects, no odd cells.
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  database.set_busy_timeout(options.busy_timeout);
  // Exclusive: nobody else changes it under us, and no shared memory is mapped
  // whose disk could run full.
  database.execute(
      "PRAGMA locking_mode=EXCLUSIVE;"
      "PRAGMA cell_size_check=ON;"
      "PRAGMA secure_delete=ON;"
      "PRAGMA temp_store=MEMORY;"
      "PRAGMA journal_mode=WAL;"
      "PRAGMA synchronous=FULL;"
      "PRAGMA journal_size_limit=16777216;");
  const auto page_size = static_cast<std::uint64_t>(number_of(database, "page_size"));
  database.execute("PRAGMA max_page_count=" + std::to_string(options.max_bytes / page_size));
}

void create_schema(SqliteDatabase& database) {
  SqliteTransaction transaction(database);
  for (const char* statement : kSchema) database.execute(statement);
  database.execute("PRAGMA application_id=" + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version=" + std::to_string(kSchemaVersion));
  transaction.commit();
}

void check_schema(const SqliteDatabase& database) {
  const auto version = number_of(database, "user_version");
  if (number_of(database, "application_id") != kApplicationId)
    throw UnusableFile("it is not a file of troupe's");
  if (version != kSchemaVersion)
    throw UnusableFile("it has version " + std::to_string(version) + ", this troupe reads version " +
                       std::to_string(kSchemaVersion));
  std::multiset<std::string> expected(kSchema.begin(), kSchema.end());
  std::multiset<std::string> found;
  SqliteStatement statement(database, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (statement.step()) found.insert(statement.text(0));
  if (found != expected) throw UnusableFile("its tables are not those of troupe");
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

// SQLite would wait on a pipe and write through a link.
void check_kind(const StateDirectory& directory) {
  struct stat status {};
  const std::string name(kConversationFileName);
  if (::fstatat(directory.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return;
    throw std::runtime_error(name + ": " + std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) throw UnusableFile("it is not a plain file");
}

std::unique_ptr<SqliteDatabase> open_checked(const StateDirectory& directory,
                                             const ConversationFileOptions& options) {
  check_kind(directory);
  auto database = std::make_unique<SqliteDatabase>(directory.path() / kConversationFileName, options.vfs);
  configure(*database, options);
  if (number_of(*database, "schema_version") == 0) {
    create_schema(*database);
  } else {
    check_schema(*database);
    check_integrity(*database, options.check_time);
  }
  return database;
}

bool rename_in(const StateDirectory& directory, const std::string& from, const std::string& to) {
  const int fd = directory.descriptor();
  if (::renameat2(fd, from.c_str(), fd, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno == ENOENT) return true;
  throw std::runtime_error(from + " can't be renamed: " + std::generic_category().message(errno));
}

void put_aside(const StateDirectory& directory, const std::string& reason) {
  const std::string name(kConversationFileName);
  for (int number = 1; number <= kMostFilesAside; ++number) {
    const auto aside = name + ".aside-" + std::to_string(number);
    if (!rename_in(directory, name, aside)) continue;
    // SQLite finds what has not been written back yet by this name.
    rename_in(directory, name + "-wal", aside + "-wal");
    log(LogLevel::kError, "stored conversations can't be read and were put aside",
        {{"file", (directory.path() / aside).string()}, {"reason", reason}});
    return;
  }
  throw std::runtime_error("too many damaged files in " + directory.path().string());
}

bool is_damage(const SqliteError& error) {
  return error.primary_code() == SQLITE_CORRUPT || error.primary_code() == SQLITE_NOTADB;
}

}  // namespace

std::unique_ptr<SqliteDatabase> open_conversation_file(const StateDirectory& directory,
                                                       const ConversationFileOptions& options) {
  try {
    return open_checked(directory, options);
  } catch (const SqliteError& error) {
    if (!is_damage(error)) throw;
    put_aside(directory, error.what());
  } catch (const UnusableFile& unusable) {
    put_aside(directory, unusable.what());
  }
  return open_checked(directory, options);
}

}  // namespace troupe
