// SPDX-License-Identifier: Apache-2.0
// KV pages that outlive the process: two files in the state directory, one with
// the pages' contents, one (the index) that says what they are. Both are read as
// hostile input: lengths, numbers and checksums are checked before anything is
// believed, and a page is given out only if its bytes are those that were
// written under its generation.
//
//   kv-pages.index  header (4096 bytes: what the pages are for), then a record
//                   of 256 bytes a page, zeros where there is none
//   kv-pages.data   the pages, each at a multiple of 4096 bytes
//
// A page is written in three steps: its record is emptied, its contents are
// written, its record is written. A process that is killed in between leaves an
// empty record; a machine that loses power may leave any mixture, which the
// checksums tell. Only the header is synced: the rest can be computed again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "policy/pages/disk_reserve.hpp"
#include "policy/pages/page_transfer.hpp"

namespace troupe {

// A page's bytes depend on these besides its tokens. Files for other contents are
// begun anew.
struct PageFileContents {
  std::array<std::uint64_t, 2> fingerprint = {};  // of model, layout and arithmetic
  std::uint32_t page_size = 0;                    // tokens, at most kMaxPageTokens
  std::uint64_t page_bytes = 0;
  bool operator==(const PageFileContents&) const = default;
};

inline constexpr std::uint32_t kMaxPageTokens = 32;

// The space of the file system that an open file is on. Throws std::system_error.
DiskSpace space_of_file_system(int file);

// One thread at a time, but for num_pages_lacking().
class PageFile {
 public:
  // Opens the files in this directory, or creates them; they may grow to
  // num_pages pages, and what is beyond is cut off. Throws std::runtime_error if
  // that is not possible. Files that are damaged, of another version, or for
  // other contents are begun anew, which is logged. `space` is asked before the
  // file grows.
  PageFile(int directory, const PageFileContents& contents, std::uint32_t num_pages,
           std::function<DiskSpace(int)> space = space_of_file_system);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  // The pages that the files held when they were opened. Empties the list.
  std::vector<StoredPage> take_stored();

  // A number that these files have drawn and keep: tenants are told by it.
  const std::array<std::uint64_t, 2>& secret() const { return secret_; }

  // Later than any generation an earlier process may have used: no two pages
  // that were ever in these files share one.
  std::uint64_t first_generation() const { return num_opened_ << 40; }

  // False: the file would grow into what is reserved (policy/pages/disk_reserve.hpp), and
  // nothing has changed. Throws std::system_error, and the page is then empty or
  // damaged.
  [[nodiscard]] bool write(std::uint32_t page, const PageIdentity& identity,
                           std::span<const std::byte> contents);
  // False if these contents are not there, or not intact. Throws
  // std::system_error if the file can't be read.
  [[nodiscard]] bool read(std::uint32_t page, const PageIdentity& identity,
                          std::span<std::byte> contents) const;
  // Its bytes are overwritten with zeros. Throws std::system_error.
  void erase(std::uint32_t page);
  // Its space goes back to the file system, where that can be done with a part of
  // a file. Throws std::system_error.
  void release(std::uint32_t page);

  // The space that is lacking to the reserve, in pages. Any thread.
  std::uint32_t num_pages_lacking() const;

 private:
  struct Entry {
    std::uint64_t generation = 0;  // 0: empty
    std::uint64_t checksum = 0;
  };

  void forget(std::uint32_t page);
  void release_unknown();
  void give_back(std::uint64_t first_page, std::uint64_t num_pages);

  bool read_header();
  void write_header();
  void read_records();

  PageFileContents contents_;
  std::function<DiskSpace(int)> space_;
  std::uint64_t stride_ = 0;
  int index_ = -1;
  int data_ = -1;
  std::array<std::uint64_t, 2> secret_ = {};
  std::uint64_t num_opened_ = 0;
  std::vector<Entry> entries_;
  std::vector<bool> has_space_;  // by page: in the data file
  std::vector<StoredPage> stored_;
};

}  // namespace troupe
