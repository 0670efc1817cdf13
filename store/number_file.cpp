// SPDX-License-Identifier: Apache-2.0
#include "store/number_file.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.hpp"

namespace troupe {
namespace {

// SQLite would wait on a pipe, and let others read. False: there is no file, and none is wanted.
bool make_private(const StateDirectory& directory, const char* name, bool creates) {
  constexpr mode_t kOwnerOnly = 0600;
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (creates ? O_CREAT : 0);
  const int file = ::openat(directory.descriptor(), name, flags, kOwnerOnly);
  if (file < 0 && errno == ENOENT && !creates) return false;
  if (file < 0) throw std::system_error(errno, std::generic_category(), name);
  struct stat status {};
  const bool is_plain = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  ::close(file);
  if (!is_plain) throw std::runtime_error("it is not a plain file");
  return true;
}

void configure(SqliteDatabase& database) {
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  database.execute("PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON;");
}

bool is_damaged(const SqliteError& error) {
  return error.primary_code() == SQLITE_CORRUPT || error.primary_code() == SQLITE_NOTADB ||
         error.primary_code() == SQLITE_ERROR;  // other tables than ours
}

void write(const StateDirectory& directory, const NumberFile& file, const std::string& key,
           std::span<const std::int64_t> numbers) {
  make_private(directory, file.name, true);
  SqliteDatabase database(directory.path() / file.name);
  configure(database);
  SqliteTransaction transaction(database);
  const std::string table = file.table;
  database.execute("CREATE TABLE IF NOT EXISTS " + table + "(key TEXT NOT NULL, point INTEGER NOT NULL, " +
                   file.column + " INTEGER NOT NULL, PRIMARY KEY(key, point)) WITHOUT ROWID");
  SqliteStatement(database, "DELETE FROM " + table + " WHERE key = ?").bind(key).run();
  std::int64_t point = 0;
  for (const std::int64_t number : numbers) {
    SqliteStatement statement(database, "INSERT INTO " + table + " VALUES(?, ?, ?)");
    statement.bind(key).bind(point++).bind(number).run();
  }
  transaction.commit();
}

}  // namespace

std::vector<std::int64_t> read_numbers(const StateDirectory& directory, const NumberFile& file,
                                       const std::string& key, std::size_t at_most) {
  std::vector<std::int64_t> numbers;
  if (!make_private(directory, file.name, false)) return numbers;
  SqliteDatabase database(directory.path() / file.name);
  configure(database);
  SqliteStatement statement(database, std::string("SELECT ") + file.column + " FROM " + file.table +
                                          " WHERE key = ? ORDER BY point");
  statement.bind(key);
  while (numbers.size() <= at_most && statement.step()) numbers.push_back(statement.integer(0));
  return numbers;
}

void write_numbers(const StateDirectory& directory, const NumberFile& file, const std::string& key,
                   std::span<const std::int64_t> numbers) {
  try {
    write(directory, file, key, numbers);
  } catch (const SqliteError& error) {
    if (!is_damaged(error)) throw;
    ::unlinkat(directory.descriptor(), file.name, 0);
    write(directory, file, key, numbers);
  }
}

}  // namespace troupe
