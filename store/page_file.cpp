// SPDX-License-Identifier: Apache-2.0
#include "store/page_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr const char* kIndexName = "kv-pages.index";
constexpr const char* kDataName = "kv-pages.data";
constexpr std::uint64_t kMagic = 0x31304b4145505254;  // changes with the byte order, too
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kHeaderBytes = kAlignment;
constexpr std::uint64_t kRecordBytes = 256;
constexpr std::size_t kRecordsAtOnce = 4096;
constexpr std::uint64_t kMostOpened = 1 << 20;  // so that generations fit 64 bits

struct Header {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t page_size = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t fingerprint[2] = {};
  std::uint64_t secret[2] = {};
  std::uint64_t num_opened = 0;
  std::uint64_t checksum = 0;  // of all before it
};

struct Record {
  std::uint64_t generation = 0;  // 0: empty
  std::uint64_t parent_generation = 0;
  std::uint64_t tenant = 0;
  std::int64_t written = 0;  // Unix seconds
  std::uint32_t page = 0;    // this one's own number
  std::uint32_t depth = 0;
  std::int32_t tokens[kMaxPageTokens] = {};
  std::uint64_t contents_checksum = 0;
  std::uint64_t checksum = 0;  // of all before it
};
static_assert(sizeof(Record) <= kRecordBytes);

template <class T>
std::uint64_t own_checksum(const T& value) {
  return XXH3_64bits(&value, offsetof(T, checksum));
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

int open_file(int directory, const char* name) {
  const int file = ::openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file < 0) fail(name);
  struct stat status {};
  const bool is_plain = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
  if (is_plain && ::fchmod(file, 0600) == 0) return file;
  ::close(file);
  throw std::runtime_error(std::string(name) + " is not a plain file with one name");
}

std::uint64_t size_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) fail("the size of the page file");
  return static_cast<std::uint64_t>(status.st_size);
}

void cut(int file, std::uint64_t size) {
  if (size_of(file) > size && ::ftruncate(file, static_cast<off_t>(size)) != 0) fail("cutting the page file");
}

void write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("writing the page file");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

// How many bytes there were: fewer at the end of the file.
std::size_t read_at(int file, std::uint64_t offset, std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("reading the page file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::uint64_t record_offset(std::uint32_t page) { return kHeaderBytes + page * kRecordBytes; }

std::uint64_t checksum_of(std::span<const std::byte> contents, std::uint64_t generation) {
  return XXH3_64bits_withSeed(contents.data(), contents.size(), generation);
}

}  // namespace

DiskSpace space_of_file_system(int file) {
  struct statvfs status {};
  if (::fstatvfs(file, &status) != 0) fail("the space on the page file's disk");
  return {.total = std::uint64_t{status.f_blocks} * status.f_frsize,
          .available = std::uint64_t{status.f_bavail} * status.f_frsize};
}

PageFile::PageFile(int directory, const PageFileContents& contents, std::uint32_t num_pages,
                   std::function<DiskSpace(int)> space)
    : contents_(contents),
      space_(std::move(space)),
      stride_((contents.page_bytes + kAlignment - 1) / kAlignment * kAlignment),
      entries_(num_pages),
      has_space_(num_pages) {
  if (contents.page_size == 0 || contents.page_size > kMaxPageTokens || contents.page_bytes == 0)
    throw std::runtime_error("a page file for pages of " + std::to_string(contents.page_size) + " tokens, " +
                             std::to_string(contents.page_bytes) + " bytes");
  try {
    index_ = open_file(directory, kIndexName);
    data_ = open_file(directory, kDataName);
    if (read_header()) {
      cut(index_, record_offset(num_pages));
      cut(data_, num_pages * stride_);
      read_records();
      release_unknown();
    } else {
      cut(index_, 0);
      cut(data_, 0);
      std::random_device random;
      for (std::uint64_t& part : secret_) part = std::uint64_t{random()} << 32 | random();
    }
    num_opened_ += 1;
    write_header();
  } catch (...) {
    if (index_ >= 0) ::close(index_);
    if (data_ >= 0) ::close(data_);
    throw;
  }
}

PageFile::~PageFile() {
  ::close(index_);
  ::close(data_);
}

// False: the files are to be begun anew.
bool PageFile::read_header() {
  const auto begin_anew = [](const char* reason) {
    log(LogLevel::kWarning, "the KV pages on disk are given up", {{"reason", reason}});
    return false;
  };
  Header header;
  const std::size_t size = read_at(index_, 0, std::as_writable_bytes(std::span(&header, 1)));
  if (size == 0) return false;
  if (size < sizeof header || header.magic != kMagic || own_checksum(header) != header.checksum)
    return begin_anew("the index is damaged, or no index");
  if (header.version != kVersion) return begin_anew("they are of another version");
  const PageFileContents contents{.fingerprint = {header.fingerprint[0], header.fingerprint[1]},
                                  .page_size = header.page_size,
                                  .page_bytes = header.page_bytes};
  if (header.num_opened > kMostOpened) return begin_anew("the index is damaged");
  if (contents != contents_) return begin_anew("they belong to another model or another build");
  secret_ = {header.secret[0], header.secret[1]};
  num_opened_ = header.num_opened;
  return true;
}

void PageFile::write_header() {
  Header header{.magic = kMagic,
                .version = kVersion,
                .page_size = contents_.page_size,
                .page_bytes = contents_.page_bytes,
                .fingerprint = {contents_.fingerprint[0], contents_.fingerprint[1]},
                .secret = {secret_[0], secret_[1]},
                .num_opened = num_opened_};
  header.checksum = own_checksum(header);
  std::array<std::byte, kHeaderBytes> block{};
  std::memcpy(block.data(), &header, sizeof header);
  write_at(index_, 0, block);
  if (::fdatasync(index_) != 0) fail("syncing the page file");
}

void PageFile::read_records() {
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  std::vector<std::byte> block(kRecordsAtOnce * kRecordBytes);
  std::uint64_t num_damaged = 0;
  for (std::uint32_t page = 0; page < entries_.size();) {
    const std::size_t size = read_at(index_, record_offset(page), block);
    for (std::size_t at = 0; at + kRecordBytes <= size && page < entries_.size();
         at += kRecordBytes, ++page) {
      Record record;
      std::memcpy(&record, block.data() + at, sizeof record);
      if (record.generation == 0) continue;
      if (own_checksum(record) != record.checksum || record.page != page) {
        num_damaged += 1;
        continue;
      }
      entries_[page] = {.generation = record.generation, .checksum = record.contents_checksum};
      has_space_[page] = true;
      stored_.push_back(
          {.disk_page = page,
           .identity = {.tenant = record.tenant,
                        .generation = record.generation,
                        .parent_generation = record.parent_generation,
                        .depth = record.depth,
                        .tokens = {record.tokens, record.tokens + contents_.page_size}},
           .age = std::chrono::seconds(now - std::clamp<std::int64_t>(record.written, 0, now))});
    }
    if (size < block.size()) break;
  }
  if (num_damaged > 0)
    log(LogLevel::kWarning, "records of KV pages on disk are damaged, their pages are lost",
        {{"pages", num_damaged}});
}

std::vector<StoredPage> PageFile::take_stored() { return std::exchange(stored_, {}); }

bool PageFile::write(std::uint32_t page, const PageIdentity& identity, std::span<const std::byte> contents) {
  if (identity.tokens.size() != contents_.page_size || contents.size() != contents_.page_bytes)
    throw std::invalid_argument("a page of another size than the file's");
  if (!has_space_.at(page) && !has_room_for(space_(data_), stride_)) return false;
  forget(page);
  has_space_[page] = true;
  write_at(data_, page * stride_, contents);
  Record record{.generation = identity.generation,
                .parent_generation = identity.parent_generation,
                .tenant = identity.tenant,
                .written = static_cast<std::int64_t>(std::time(nullptr)),
                .page = page,
                .depth = identity.depth,
                .contents_checksum = checksum_of(contents, identity.generation)};
  std::copy(identity.tokens.begin(), identity.tokens.end(), record.tokens);
  record.checksum = own_checksum(record);
  std::array<std::byte, kRecordBytes> block{};
  std::memcpy(block.data(), &record, sizeof record);
  write_at(index_, record_offset(page), block);
  entries_.at(page) = {.generation = record.generation, .checksum = record.contents_checksum};
  return true;
}

bool PageFile::read(std::uint32_t page, const PageIdentity& identity, std::span<std::byte> contents) const {
  const Entry& entry = entries_.at(page);
  if (entry.generation == 0 || entry.generation != identity.generation) return false;
  if (contents.size() != contents_.page_bytes) return false;
  return read_at(data_, page * stride_, contents) == contents.size() &&
         checksum_of(contents, entry.generation) == entry.checksum;
}

void PageFile::erase(std::uint32_t page) {
  forget(page);
  if (!has_space_.at(page)) return;
  write_at(data_, page * stride_, std::vector<std::byte>(stride_));
}

void PageFile::release(std::uint32_t page) {
  forget(page);
  give_back(page, 1);
}

std::uint32_t PageFile::num_pages_lacking() const {
  return static_cast<std::uint32_t>((lacking_space(space_(data_)) + stride_ - 1) / stride_);
}

// Frees space that a killed process had begun to write.
void PageFile::release_unknown() {
  const std::uint64_t num_pages = std::min<std::uint64_t>(entries_.size(), size_of(data_) / stride_ + 1);
  std::uint64_t first = 0;
  for (std::uint64_t page = 0; page <= num_pages; ++page) {
    if (page < num_pages && !has_space_[page]) continue;
    if (page > first) give_back(first, page - first);
    first = page + 1;
  }
}

void PageFile::give_back(std::uint64_t first_page, std::uint64_t num_pages) {
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const auto offset = static_cast<off_t>(first_page * stride_);
  const auto size = static_cast<off_t>(num_pages * stride_);
  if (::fallocate(data_, kMode, offset, size) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    fail("giving space of the page file back");
  for (std::uint64_t page = first_page; page < first_page + num_pages; ++page) has_space_[page] = false;
}

// Its record only.
void PageFile::forget(std::uint32_t page) {
  Entry& entry = entries_.at(page);
  entry = {};
  if (record_offset(page) >= size_of(index_)) return;  // was never written
  const std::array<std::byte, kRecordBytes> empty{};
  write_at(index_, record_offset(page), empty);
}

}  // namespace troupe
