// SPDX-License-Identifier: Apache-2.0
// SQLite's C interface with owners and exceptions. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace troupe {

class SqliteError : public std::runtime_error {
 public:
  SqliteError(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }                 // extended
  int primary_code() const { return code_ & 0xff; }  // SQLITE_BUSY, SQLITE_FULL …
  bool is_full() const;                              // the disk, or the limit on the file
  bool is_failed_sync() const;

 private:
  int code_;
};

class SqliteDatabase {
 public:
  // Opens or creates the file; no part of the path may be a symbolic link. vfs:
  // null for the default.
  explicit SqliteDatabase(const std::filesystem::path& file, const char* vfs = nullptr);
  // Only to read a file that is not written meanwhile and has an empty log: without locks,
  // and without files beside it.
  static SqliteDatabase immutable(const std::filesystem::path& file);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  void execute(const std::string& statements);
  void set_busy_timeout(std::chrono::milliseconds timeout);
  // The first column of a query's first row; 0 if there is none.
  std::int64_t number(std::string_view query) const;
  // Writes the log back into the file and empties it.
  void checkpoint();
  // The log is written back when this is destroyed; else it stays as it is.
  void set_checkpoint_on_close(bool is_wanted);
  std::int64_t last_row() const;
  std::int64_t num_changes() const;  // of the last statement
  sqlite3* handle() const { return handle_; }

 private:
  SqliteDatabase(const std::string& name, int flags, const char* vfs);

  sqlite3* handle_ = nullptr;
};

// Parameters are bound in order, columns are read by number. Bound text and
// bytes must stay where they are until the statement is gone.
class SqliteStatement {
 public:
  SqliteStatement(const SqliteDatabase& database, std::string_view sql);
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  SqliteStatement& bind(std::int64_t number);
  SqliteStatement& bind(std::string_view text);
  SqliteStatement& bind_bytes(std::span<const std::byte> bytes);
  SqliteStatement& bind_null();

  // True while there is a row to read.
  bool step();
  void run();  // for what has no rows

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  std::string text(int column) const;
  // Valid until the next step.
  std::span<const std::byte> bytes(int column) const;

 private:
  void check(int code) const;

  sqlite3* database_;
  sqlite3_stmt* handle_ = nullptr;
  int num_bound_ = 0;
};

// Rolled back unless committed.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database);
  ~SqliteTransaction();
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  void commit();

 private:
  SqliteDatabase& database_;
  bool is_open_ = true;
};

}  // namespace troupe
