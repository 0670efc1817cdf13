// SPDX-License-Identifier: Apache-2.0
// The pages of a SQLite file together with its write-ahead log, read without
// SQLite, which refuses a file that is damaged. Only reads; believes no length
// and no number in the files. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe {

class SqlitePages {
 public:
  static constexpr std::size_t kPageSize = 4096;
  using Page = std::vector<std::byte>;  // kPageSize bytes

  // Opens `name` and `name`-wal in this directory; either may be missing, and one
  // that is no plain file counts as empty. Throws std::system_error if one that is
  // there can't be opened.
  SqlitePages(int directory, const std::string& name);
  ~SqlitePages();
  SqlitePages(const SqlitePages&) = delete;
  SqlitePages& operator=(const SqlitePages&) = delete;

  // Pages are numbered from 1.
  std::uint32_t num_pages() const { return num_pages_; }
  // As the last commit left it, the log included; nullopt: not there, or the disk
  // does not give it.
  std::optional<Page> read(std::uint32_t number) const;

  // The file itself is missing or has no bytes.
  bool is_file_empty() const { return num_file_pages_ == 0; }
  // No commit waits in the log to be written back.
  bool is_log_empty() const { return offsets_in_log_.empty(); }
  // Two commits or more are intact behind a part of the log that is not: SQLite
  // would drop them. With one only, that part may be the torn end of a write
  // that was never acknowledged.
  bool is_log_damaged() const { return is_log_damaged_; }

 private:
  struct Log;
  void read_log();
  void apply_log(const Log& log);

  int file_ = -1;
  int log_ = -1;
  std::uint32_t num_file_pages_ = 0;
  std::uint32_t num_pages_ = 0;
  bool is_log_damaged_ = false;
  std::unordered_map<std::uint32_t, std::uint64_t> offsets_in_log_;  // by page
};

// The number of so many bytes at `at`, most significant first, as everywhere in
// SQLite's files.
std::uint64_t big_endian(const std::byte* at, std::size_t num_bytes);

}  // namespace troupe
