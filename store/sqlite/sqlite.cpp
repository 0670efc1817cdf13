// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/sqlite.hpp"

#include <sqlite3.h>

#include <cstddef>

namespace troupe {
namespace {

[[noreturn]] void fail(sqlite3* database, int code) {
  std::string text = sqlite3_errstr(code);
  if (database != nullptr) {
    code = sqlite3_extended_errcode(database);
    text = sqlite3_errmsg(database);
  }
  throw SqliteError(code, text);
}

constexpr int kFlags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;

// Characters that mean something in a URI are escaped.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kHexDigits = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : path) {
    if (c != '%' && c != '?' && c != '#') {
      uri += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    uri += {'%', kHexDigits[byte / 16], kHexDigits[byte % 16]};
  }
  return uri;
}

}  // namespace

bool SqliteError::is_full() const { return primary_code() == SQLITE_FULL; }

bool SqliteError::is_failed_sync() const {
  return code_ == SQLITE_IOERR_FSYNC || code_ == SQLITE_IOERR_DIR_FSYNC;
}

SqliteDatabase::SqliteDatabase(const std::filesystem::path& file, const char* vfs)
    : SqliteDatabase(file.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs) {}

SqliteDatabase SqliteDatabase::immutable(const std::filesystem::path& file) {
  return {uri_of(std::filesystem::absolute(file).string()) + "?immutable=1",
          SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr};
}

SqliteDatabase::SqliteDatabase(const std::string& name, int flags, const char* vfs) {
  const int code = sqlite3_open_v2(name.c_str(), &handle_, kFlags | flags, vfs);
  if (code == SQLITE_OK) return;
  const std::string text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  sqlite3_close(handle_);
  throw SqliteError(code, text);
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close(handle_); }

void SqliteDatabase::execute(const std::string& statements) {
  const int code = sqlite3_exec(handle_, statements.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle_, code);
}

void SqliteDatabase::set_busy_timeout(std::chrono::milliseconds timeout) {
  sqlite3_busy_timeout(handle_, static_cast<int>(timeout.count()));
}

std::int64_t SqliteDatabase::number(std::string_view query) const {
  SqliteStatement statement(*this, query);
  return statement.step() ? statement.integer(0) : 0;
}

void SqliteDatabase::checkpoint() {
  const int code = sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle_, code);
}

void SqliteDatabase::set_checkpoint_on_close(bool is_wanted) {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_wanted ? 0 : 1, nullptr);
}

std::int64_t SqliteDatabase::last_row() const { return sqlite3_last_insert_rowid(handle_); }
std::int64_t SqliteDatabase::num_changes() const { return sqlite3_changes64(handle_); }

SqliteStatement::SqliteStatement(const SqliteDatabase& database, std::string_view sql)
    : database_(database.handle()) {
  check(sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &handle_, nullptr));
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(handle_); }

SqliteStatement& SqliteStatement::bind(std::int64_t number) {
  check(sqlite3_bind_int64(handle_, ++num_bound_, number));
  return *this;
}

SqliteStatement& SqliteStatement::bind(std::string_view text) {
  // An empty view may have no address, which would mean NULL.
  const char* data = text.empty() ? "" : text.data();
  check(sqlite3_bind_text64(handle_, ++num_bound_, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::bind_bytes(std::span<const std::byte> bytes) {
  check(bytes.empty()
            ? sqlite3_bind_zeroblob(handle_, ++num_bound_, 0)
            : sqlite3_bind_blob64(handle_, ++num_bound_, bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

SqliteStatement& SqliteStatement::bind_null() {
  check(sqlite3_bind_null(handle_, ++num_bound_));
  return *this;
}

bool SqliteStatement::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  fail(database_, code);
}

void SqliteStatement::run() {
  while (step()) {
  }
}

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

std::int64_t SqliteStatement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::string SqliteStatement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::span<const std::byte> SqliteStatement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

void SqliteStatement::check(int code) const {
  if (code != SQLITE_OK) fail(database_, code);
}

SqliteTransaction::SqliteTransaction(SqliteDatabase& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

SqliteTransaction::~SqliteTransaction() {
  if (!is_open_) return;
  // Where the failure has rolled it back already there is nothing left to do.
  if (sqlite3_get_autocommit(database_.handle()) == 0)
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void SqliteTransaction::commit() {
  database_.execute("COMMIT");
  is_open_ = false;
}

}  // namespace troupe
