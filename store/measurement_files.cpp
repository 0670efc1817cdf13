// SPDX-License-Identifier: Apache-2.0
#include "store/measurement_files.hpp"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.hpp"

namespace troupe {
namespace {

// One kind of numbers, by all that they depend on, with the names that its file has for them.
struct NumberFile {
  const char* name;    // of the file
  const char* table;   // of the database
  const char* column;  // of the numbers
};
constexpr NumberFile kCosts = {.name = kEncoderCostFile, .table = "cost", .column = "nanoseconds"};
constexpr NumberFile kBatches = {.name = kCellBatchFile, .table = "batch", .column = "nodes"};

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

// Empty: none are kept for the key. Reads one more than at_most, which says that there are too many.
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

}  // namespace

std::optional<EncoderCosts> read_encoder_costs(const StateDirectory& directory, const std::string& key) {
  const auto numbers = read_numbers(directory, kCosts, key, EncoderCosts::kPoints);
  if (numbers.empty()) return std::nullopt;
  auto costs = EncoderCosts::from_values(std::vector<double>(numbers.begin(), numbers.end()));
  if (!costs) throw std::runtime_error("expected times that do not shrink with length or number");
  return costs;
}

void write_encoder_costs(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs) {
  std::vector<std::int64_t> numbers;
  for (const double value : costs.values()) numbers.push_back(std::llround(value));
  write_numbers(directory, kCosts, key, numbers);
}

std::vector<std::uint32_t> read_cell_batches(const StateDirectory& directory, const std::string& key,
                                             std::size_t num_cells) {
  std::vector<std::uint32_t> max_batches;
  for (const std::int64_t number : read_numbers(directory, kBatches, key, num_cells)) {
    if (number < 1 || number > std::numeric_limits<std::uint32_t>::max())
      throw std::runtime_error("a batch of " + std::to_string(number) + " nodes");
    max_batches.push_back(static_cast<std::uint32_t>(number));
  }
  if (!max_batches.empty() && max_batches.size() != num_cells)
    throw std::runtime_error("expected sizes of " + std::to_string(num_cells) + " cells");
  return max_batches;
}

void write_cell_batches(const StateDirectory& directory, const std::string& key,
                        const std::vector<std::uint32_t>& max_batches) {
  write_numbers(directory, kBatches, key, std::vector<std::int64_t>(max_batches.begin(), max_batches.end()));
}

}  // namespace troupe
