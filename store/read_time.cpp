// SPDX-License-Identifier: Apache-2.0
#include "store/read_time.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

const char* const kName = "read-time.tmp";
constexpr std::uint64_t kMostBytes = 8 << 20;
constexpr std::uint64_t kFewestPages = 4;
constexpr std::uint64_t kMostPages = 32;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// Without a name from the beginning: nothing is left of it, however we end.
class ScratchFile {
 public:
  explicit ScratchFile(int directory) {
    ::unlinkat(directory, kName, 0);  // of a process killed between the next two
    descriptor_ = ::openat(directory, kName, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor_ < 0) fail("a file can't be made");
    ::unlinkat(directory, kName, 0);
  }
  ~ScratchFile() { ::close(descriptor_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void append(const std::vector<char>& bytes) {
    for (std::size_t written = 0; written < bytes.size();) {
      const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail("a file can't be written");
      written += static_cast<std::size_t>(count);
    }
  }
  void leave_memory() {
    if (::fdatasync(descriptor_) != 0) fail("a file can't be synced");
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  }
  void read_at(std::uint64_t offset, std::vector<char>& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count =
          ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail("a file can't be read");
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  int descriptor_ = -1;
};

}  // namespace

double measure_read_time(int directory, std::uint64_t page_bytes) {
  page_bytes = std::max<std::uint64_t>(page_bytes, 1);
  const std::uint64_t num_pages = std::clamp(kMostBytes / page_bytes, kFewestPages, kMostPages);
  ScratchFile file(directory);
  std::vector<char> page(page_bytes);
  for (std::uint64_t i = 0; i < num_pages; ++i) {
    // Not alike, for file systems that store equal bytes once.
    for (std::size_t j = 0; j < page.size(); j += 512) page[j] = static_cast<char>(i * 131 + j / 512 + 1);
    file.append(page);
  }
  file.leave_memory();
  std::vector<double> times;
  for (std::uint64_t i = 0; i < num_pages; ++i) {
    const std::uint64_t number = (i * 37 + 11) % num_pages;
    const auto begin = Clock::now();
    file.read_at(number * page_bytes, page);
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace troupe
