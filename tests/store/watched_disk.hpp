// SPDX-License-Identifier: Apache-2.0
// The system's calls on files, watched: this program's own openat(), fdatasync(), fsync(),
// ftruncate(), unlinkat(), renameat(), renameat2() and pread() pass through to the kernel.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace troupe::test {

// While it lives, counts the cuts, and the losses of a last name, that freed bytes of files.
class FreedBytes {
 public:
  FreedBytes();
  ~FreedBytes();
  FreedBytes(const FreedBytes&) = delete;
  FreedBytes& operator=(const FreedBytes&) = delete;

  int num_freed() const { return num_freed_; }
  // Calls of these whose bytes were not all zeros, or not when the file was synced last.
  int num_not_overwritten() const { return num_not_overwritten_; }
  // Calls of these that freed a file's bytes when it had no name any more.
  int num_nameless() const { return num_nameless_; }
  int num_syncs() const { return num_syncs_; }

  // By the calls.
  void note_sync(int file);
  void note_free(int file, std::uint64_t from);

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;

  std::map<FileId, std::uint64_t> zeros_from_;  // when the file was synced last
  int num_freed_ = 0, num_not_overwritten_ = 0, num_nameless_ = 0, num_syncs_ = 0;
};

// While it lives, bytes [begin, end) of any file can't be read, or not so many times.
class UnreadableBytes {
 public:
  UnreadableBytes(std::uint64_t begin, std::uint64_t end, int num_times = 1'000'000);
  ~UnreadableBytes();
  UnreadableBytes(const UnreadableBytes&) = delete;
  UnreadableBytes& operator=(const UnreadableBytes&) = delete;
};

// While it lives, calls of one kind fail: EIO, EMFILE where files can't be opened, or EINVAL where
// names can't be exchanged.
class RefusedCalls {
 public:
  enum class Kind : std::uint8_t { kNone, kOpen, kSync, kUnlink, kExchange };
  explicit RefusedCalls(Kind kind);
  ~RefusedCalls();
  RefusedCalls(const RefusedCalls&) = delete;
  RefusedCalls& operator=(const RefusedCalls&) = delete;
};

}  // namespace troupe::test
