// SPDX-License-Identifier: Apache-2.0
// A page file whose bytes were changed while nobody looked: whatever is damaged, a
// page is given out only if its contents are those written under its generation.
//
// The input is how many pages may be there, then damages of four bytes: a kind, a
// place (two bytes) and a value.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/page_file.hpp"
#include "telemetry/log.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::fuzz {
namespace {

constexpr std::uint32_t kNumPages = 4;
constexpr std::uint64_t kPageBytes = 96;
constexpr PageFileContents kContents{.fingerprint = {3, 4}, .page_size = 4, .page_bytes = kPageBytes};
// As store/page_file.hpp has it.
constexpr std::size_t kHeaderBytes = 4096, kRecordBytes = 256, kStride = 4096;
constexpr std::size_t kHeaderChecksum = 64, kRecordChecksum = 176;

using Page = std::vector<std::byte>;

Page contents_of(std::uint64_t generation) {
  Page page(kPageBytes);
  for (std::size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(generation * 31 + i);
  return page;
}

PageIdentity identity_of(std::uint64_t generation) {
  return {.tenant = 5,
          .generation = generation,
          .parent_generation = generation - 1,
          .depth = 2,
          .tokens = {1, 2, 3, static_cast<std::int32_t>(generation & 0xFFFF)}};
}

// The files in the state directory, and what they were before they were damaged.
class Place {
 public:
  Place() : descriptor_(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    PageFile file = open(kNumPages);
    for (std::uint32_t page = 0; page + 1 < kNumPages; ++page) {
      const std::uint64_t generation = file.first_generation() + page + 1;
      require(file.write(page, identity_of(generation), contents_of(generation)), "a new page has no room");
      pages_[page] = generation;
    }
    index_ = test::file_text(directory_.path() / "kv-pages.index");
    data_ = test::file_text(directory_.path() / "kv-pages.data");
  }
  ~Place() { ::close(descriptor_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  PageFile open(std::uint32_t num_pages) const {
    const auto much = [](int) { return DiskSpace{.total = 1ULL << 40, .available = 1ULL << 40}; };
    return PageFile(descriptor_, kContents, num_pages, much);
  }
  void write(const std::string& index, const std::string& data) const {
    directory_.write("kv-pages.index", index);
    directory_.write("kv-pages.data", data);
  }
  const std::string& index() const { return index_; }
  const std::string& data() const { return data_; }
  const std::map<std::uint32_t, std::uint64_t>& pages() const { return pages_; }  // generations

 private:
  TemporaryDirectory directory_;
  int descriptor_;
  std::string index_, data_;
  std::map<std::uint32_t, std::uint64_t> pages_;
};

void flip(std::string& file, std::size_t at, unsigned char value) {
  if (!file.empty()) file[at % file.size()] = static_cast<char>(file[at % file.size()] ^ value);
}

void copy_block(std::string& file, std::size_t begin, std::size_t size, unsigned from, unsigned to) {
  if (begin + (std::max(from, to) + 1) * size > file.size()) return;
  std::memmove(file.data() + begin + to * size, file.data() + begin + from * size, size);
}

// As only somebody would do it who knows the format.
void sign(std::string& file, std::size_t begin, std::size_t checksum) {
  if (begin + checksum + sizeof(std::uint64_t) > file.size()) return;
  const std::uint64_t sum = XXH3_64bits(file.data() + begin, checksum);
  std::memcpy(file.data() + begin + checksum, &sum, sizeof sum);
}

struct Damaged {
  std::string index, data;
  bool is_signed = false;
};

void damage(Damaged& files, unsigned kind, std::size_t at, unsigned char value) {
  const unsigned from = value / 16 % kNumPages, to = value % kNumPages;
  switch (kind % 8) {
    case 0: return flip(files.index, at, value);
    case 1: return flip(files.index, kHeaderBytes + at % (kNumPages * kRecordBytes), value);
    case 2: return flip(files.data, at, value);
    case 3: return files.index.resize(std::min(files.index.size(), at));
    case 4: return files.data.resize(std::min(files.data.size(), at));
    case 5: return copy_block(files.index, kHeaderBytes, kRecordBytes, from, to);
    case 6: return copy_block(files.data, 0, kStride, from, to);
    default:
      files.is_signed = true;
      sign(files.index, 0, kHeaderChecksum);
      sign(files.index, kHeaderBytes + to * kRecordBytes, kRecordChecksum);
  }
}

void check_stored(PageFile& file, const Place& place, const Damaged& files, std::uint32_t num_pages) {
  for (const StoredPage& stored : file.take_stored()) {
    require(stored.disk_page < num_pages, "a page is stored beyond the file");
    require(stored.age.count() >= 0, "a page is younger than now");
    if (files.is_signed) continue;
    const auto known = place.pages().find(stored.disk_page);
    require(known != place.pages().end() && stored.identity == identity_of(known->second),
            "a page that was never written counts as stored");
  }
  Page page(kPageBytes);
  for (std::uint32_t at = 0; at < num_pages; ++at) {
    for (const auto& [written_at, generation] : place.pages()) {
      if (file.read(at, identity_of(generation), page))
        require(page == contents_of(generation), "a damaged page is taken for right");
    }
  }
}

void check_goes_on(PageFile& file, std::uint32_t num_pages) {
  Page page(kPageBytes);
  for (std::uint32_t at = 0; at < num_pages; ++at) {
    const std::uint64_t generation = file.first_generation() + at + 1;
    require(file.write(at, identity_of(generation), contents_of(generation)), "a page has no room");
    require(file.read(at, identity_of(generation), page) && page == contents_of(generation),
            "a page can't be read that was just written");
    if (at % 2 == 0) file.erase(at);
    if (at % 2 == 1) file.release(at);
    require(!file.read(at, identity_of(generation), page), "a page is there after it was given up");
  }
}

}  // namespace

void fuzz_page_file(std::string_view bytes) {
  static const Place place;
  if (bytes.empty()) return;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::uint32_t num_pages = byte(0) % 7;
  Damaged files{.index = place.index(), .data = place.data()};
  for (std::size_t at = 1; at + 4 <= bytes.size() && at < 256; at += 4)
    damage(files, byte(at), byte(at + 1) * 256U + byte(at + 2), byte(at + 3));
  place.write(files.index, files.data);
  PageFile file = place.open(num_pages);
  check_stored(file, place, files, num_pages);
  check_goes_on(file, num_pages);
}

}  // namespace troupe::fuzz
