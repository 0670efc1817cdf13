// SPDX-License-Identifier: Apache-2.0
#include "store/encoder_cost_file.hpp"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.hpp"

namespace troupe {

const char* const kEncoderCostFile = "encoder-costs.sqlite";

namespace {

// SQLite would wait on a pipe, and let others read. False: there is no file, and none is wanted.
bool make_private(const StateDirectory& directory, bool creates) {
  constexpr mode_t kOwnerOnly = 0600;
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (creates ? O_CREAT : 0);
  const int file = ::openat(directory.descriptor(), kEncoderCostFile, flags, kOwnerOnly);
  if (file < 0 && errno == ENOENT && !creates) return false;
  if (file < 0) throw std::system_error(errno, std::generic_category(), kEncoderCostFile);
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

void write(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs) {
  make_private(directory, true);
  SqliteDatabase database(directory.path() / kEncoderCostFile);
  configure(database);
  SqliteTransaction transaction(database);
  database.execute(
      "CREATE TABLE IF NOT EXISTS cost(key TEXT NOT NULL, point INTEGER NOT NULL, "
      "nanoseconds INTEGER NOT NULL, PRIMARY KEY(key, point)) WITHOUT ROWID");
  std::int64_t point = 0;
  for (const double value : costs.values()) {
    SqliteStatement statement(database, "INSERT OR REPLACE INTO cost VALUES(?, ?, ?)");
    statement.bind(key).bind(point++).bind(static_cast<std::int64_t>(std::llround(value))).run();
  }
  transaction.commit();
}

}  // namespace

std::optional<EncoderCosts> read_encoder_costs(const StateDirectory& directory, const std::string& key) {
  if (!make_private(directory, false)) return std::nullopt;
  SqliteDatabase database(directory.path() / kEncoderCostFile);
  configure(database);
  SqliteStatement statement(database, "SELECT nanoseconds FROM cost WHERE key = ? ORDER BY point");
  statement.bind(key);
  std::vector<double> values;
  while (values.size() <= EncoderCosts::kPoints && statement.step())
    values.push_back(static_cast<double>(statement.integer(0)));
  if (values.empty()) return std::nullopt;
  auto costs = EncoderCosts::from_values(values);
  if (!costs) throw std::runtime_error("expected times that do not shrink with length or number");
  return costs;
}

void write_encoder_costs(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs) {
  try {
    write(directory, key, costs);
  } catch (const SqliteError& error) {
    if (!is_damaged(error)) throw;
    ::unlinkat(directory.descriptor(), kEncoderCostFile, 0);
    write(directory, key, costs);
  }
}

}  // namespace troupe
