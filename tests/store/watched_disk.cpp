// SPDX-License-Identifier: Apache-2.0
#include "tests/store/watched_disk.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <string>

namespace troupe::test {
namespace {

FreedBytes* watch = nullptr;
std::uint64_t unreadable_begin = 0, unreadable_end = 0;
int num_unreadable_times = 0;
RefusedCalls::Kind refused = RefusedCalls::Kind::kNone;

ssize_t read_at(int file, void* bytes, std::size_t size, off_t place) {
  return ::syscall(SYS_pread64, file, bytes, size, place);
}

// All is zeros from there on.
std::uint64_t zeros_from(int watched, std::uint64_t size) {
  std::string bytes(size, '\1');
  // It may be open for writing only.
  const int file = ::open(("/proc/self/fd/" + std::to_string(watched)).c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t done = 0;
  for (ssize_t some = 1; done < size && some > 0; done += static_cast<std::size_t>(some > 0 ? some : 0))
    some = read_at(file, bytes.data() + done, size - done, static_cast<off_t>(done));
  ::close(file);
  return bytes.find_last_not_of('\0') + 1;
}

struct stat status_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) status.st_size = 0;
  return status;
}

// The file of this name, if it is the last one.
void note_loss_of_name(int directory, const char* name) {
  if (watch == nullptr) return;
  const int file = ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  if (status_of(file).st_nlink == 1) watch->note_free(file, 0);
  ::close(file);
}

int refuse(int error) {
  errno = error;
  return -1;
}

int sync_by(long call, int file) {
  if (refused == RefusedCalls::Kind::kSync) return refuse(EIO);
  const int result = static_cast<int>(::syscall(call, file));
  const int error = errno;
  if (watch != nullptr && result == 0) watch->note_sync(file);
  errno = error;
  return result;
}

}  // namespace

FreedBytes::FreedBytes() { watch = this; }
FreedBytes::~FreedBytes() { watch = nullptr; }

void FreedBytes::note_sync(int file) {
  num_syncs_ += 1;
  const auto status = status_of(file);
  zeros_from_[{status.st_dev, status.st_ino}] = zeros_from(file, static_cast<std::uint64_t>(status.st_size));
}

void FreedBytes::note_free(int file, std::uint64_t from) {
  const auto status = status_of(file);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const bool has_bytes = from < size && ::lseek(file, static_cast<off_t>(from), SEEK_DATA) >= 0;
  if (!has_bytes) return;
  num_freed_ += 1;
  const auto at_sync = zeros_from_.find({status.st_dev, status.st_ino});
  const bool is_overwritten =
      at_sync != zeros_from_.end() && at_sync->second <= from && zeros_from(file, size) <= from;
  num_not_overwritten_ += is_overwritten ? 0 : 1;
  num_nameless_ += status.st_nlink == 0 ? 1 : 0;
}

UnreadableBytes::UnreadableBytes(std::uint64_t begin, std::uint64_t end, int num_times) {
  unreadable_begin = begin;
  unreadable_end = end;
  num_unreadable_times = num_times;
}
UnreadableBytes::~UnreadableBytes() { unreadable_begin = unreadable_end = 0; }

RefusedCalls::RefusedCalls(Kind kind) { refused = kind; }
RefusedCalls::~RefusedCalls() { refused = Kind::kNone; }

}  // namespace troupe::test

// Instead of the library's.
extern "C" {

int fdatasync(int file) { return troupe::test::sync_by(SYS_fdatasync, file); }

int fsync(int file) { return troupe::test::sync_by(SYS_fsync, file); }

int ftruncate(int file, off_t size) noexcept {
  if (troupe::test::watch != nullptr) troupe::test::watch->note_free(file, static_cast<std::uint64_t>(size));
  return static_cast<int>(::syscall(SYS_ftruncate, file, size));
}

int openat(int directory, const char* name, int flags, ...) {
  if (troupe::test::refused == troupe::test::RefusedCalls::Kind::kOpen) return troupe::test::refuse(EMFILE);
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return static_cast<int>(::syscall(SYS_openat, directory, name, flags, mode));
}

int unlinkat(int directory, const char* name, int flags) noexcept {
  if (troupe::test::refused == troupe::test::RefusedCalls::Kind::kUnlink) return troupe::test::refuse(EIO);
  troupe::test::note_loss_of_name(directory, name);
  return static_cast<int>(::syscall(SYS_unlinkat, directory, name, flags));
}

int renameat2(int old_directory, const char* old_name, int new_directory, const char* new_name,
              unsigned flags) noexcept {
  const bool exchanges = (flags & RENAME_EXCHANGE) != 0;
  if (exchanges && troupe::test::refused == troupe::test::RefusedCalls::Kind::kExchange)
    return troupe::test::refuse(EINVAL);
  if (!exchanges) troupe::test::note_loss_of_name(new_directory, new_name);
  return static_cast<int>(::syscall(SYS_renameat2, old_directory, old_name, new_directory, new_name, flags));
}

int renameat(int old_directory, const char* old_name, int new_directory, const char* new_name) noexcept {
  return renameat2(old_directory, old_name, new_directory, new_name, 0);
}

ssize_t pread(int file, void* bytes, std::size_t size, off_t place) {
  const auto begin = static_cast<std::uint64_t>(place);
  const bool is_there = begin < troupe::test::unreadable_end && begin + size > troupe::test::unreadable_begin;
  if (is_there && troupe::test::num_unreadable_times-- > 0) return troupe::test::refuse(EIO);
  return troupe::test::read_at(file, bytes, size, place);
}
}
