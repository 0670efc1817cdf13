// SPDX-License-Identifier: Apache-2.0
// The format is the one of https://www.sqlite.org/fileformat2.html, section 4.
#include "store/sqlite/sqlite_pages.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

namespace troupe {
namespace {

constexpr std::size_t kLogHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::size_t kFrameBytes = kFrameHeaderBytes + SqlitePages::kPageSize;
constexpr std::size_t kMostIntactBehindTear = 1;  // commits
constexpr std::uint32_t kMostPages = 1U << 24;    // 64 GiB: far more than a file may have

using Bytes = std::span<const std::byte>;

int open_to_read(int directory, const std::string& name) {
  const int file = ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno != ENOENT && errno != ELOOP)
    throw std::system_error(errno, std::generic_category(), name);
  return file;
}

std::uint64_t size_of(int file) {
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

bool read_all(int file, std::uint64_t offset, std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

struct LogChecksum {
  std::uint32_t first = 0, second = 0;
  bool operator==(const LogChecksum&) const = default;

  void add(Bytes bytes, bool is_big_endian) {
    const auto word = [&](std::size_t at) {
      const auto value = static_cast<std::uint32_t>(big_endian(bytes.data() + at, 4));
      return is_big_endian ? value : __builtin_bswap32(value);
    };
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first += word(at) + second;
      second += word(at + 4) + first;
    }
  }
};

LogChecksum stored_checksum(const std::byte* at) {
  return {.first = static_cast<std::uint32_t>(big_endian(at, 4)),
          .second = static_cast<std::uint32_t>(big_endian(at + 4, 4))};
}

}  // namespace

std::uint64_t big_endian(const std::byte* at, std::size_t num_bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < num_bytes; ++i) value = value << 8 | std::to_integer<std::uint64_t>(at[i]);
  return value;
}

// The frames that are intact and belong to this use of the log, in order.
struct SqlitePages::Log {
  struct Frame {
    std::uint64_t offset = 0;  // of the page
    std::uint32_t page = 0;
    bool is_commit = false;
    bool follows_damage = false;  // something in front of it is broken
  };
  std::vector<Frame> frames;
};

SqlitePages::SqlitePages(int directory, const std::string& name) {
  try {
    file_ = open_to_read(directory, name);
    log_ = open_to_read(directory, name + "-wal");
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    throw;
  }
  num_file_pages_ =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(size_of(file_) / kPageSize, kMostPages));
  num_pages_ = num_file_pages_;
  read_log();
}

SqlitePages::~SqlitePages() {
  if (file_ >= 0) ::close(file_);
  if (log_ >= 0) ::close(log_);
}

// Each frame's checksum goes on from the one before it, so a frame behind a
// broken one can still be judged: by the number that the broken one carries.
void SqlitePages::read_log() {
  const std::uint64_t size = size_of(log_);
  std::vector<std::byte> header(kLogHeaderBytes);
  if (size < kLogHeaderBytes + kFrameBytes || !read_all(log_, 0, header)) return;
  const bool is_big_endian = (header[3] & std::byte{1}) != std::byte{0};
  LogChecksum checksum;
  checksum.add(Bytes(header).first(24), is_big_endian);
  LogChecksum before = stored_checksum(&header[24]);
  bool is_broken = checksum != before;
  std::uint64_t salts = big_endian(&header[16], 8);
  bool are_salts_known = !is_broken;
  Log log;
  std::vector<std::byte> frame(kFrameBytes);
  for (std::uint64_t at = kLogHeaderBytes; at + kFrameBytes <= size; at += kFrameBytes) {
    if (!read_all(log_, at, frame)) {
      is_broken = true;
      continue;
    }
    LogChecksum own = before;
    own.add(Bytes(frame).first(8), is_big_endian);
    own.add(Bytes(frame).subspan(kFrameHeaderBytes), is_big_endian);
    before = stored_checksum(&frame[16]);
    const std::uint64_t frame_salts = big_endian(&frame[8], 8);
    if (!are_salts_known && own == before) {
      salts = frame_salts;
      are_salts_known = true;
    }
    if (own != before || frame_salts != salts) {
      is_broken = true;
      continue;
    }
    log.frames.push_back({.offset = at + kFrameHeaderBytes,
                          .page = static_cast<std::uint32_t>(big_endian(frame.data(), 4)),
                          .is_commit = big_endian(&frame[4], 4) != 0,
                          .follows_damage = is_broken});
  }
  apply_log(log);
}

// Without damage up to the last commit, as SQLite would.
void SqlitePages::apply_log(const Log& log) {
  const auto num_behind = std::count_if(log.frames.begin(), log.frames.end(), [](const Log::Frame& frame) {
    return frame.is_commit && frame.follows_damage;
  });
  is_log_damaged_ = static_cast<std::size_t>(num_behind) > kMostIntactBehindTear;
  auto first_open = log.frames.begin();
  for (auto frame = log.frames.begin(); frame != log.frames.end(); ++frame) {
    if (frame->follows_damage && !is_log_damaged_) return;
    if (!frame->is_commit) continue;
    for (; first_open <= frame; ++first_open) {
      if (first_open->page == 0 || first_open->page > kMostPages) continue;
      offsets_in_log_[first_open->page] = first_open->offset;
      num_pages_ = std::max(num_pages_, first_open->page);
    }
  }
}

std::optional<SqlitePages::Page> SqlitePages::read(std::uint32_t number) const {
  if (number == 0) return std::nullopt;
  Page page(kPageSize);
  const auto in_log = offsets_in_log_.find(number);
  if (in_log != offsets_in_log_.end() && read_all(log_, in_log->second, page)) return page;
  if (number > num_file_pages_) return std::nullopt;
  if (!read_all(file_, std::uint64_t{number - 1} * kPageSize, page)) return std::nullopt;
  return page;
}

}  // namespace troupe
