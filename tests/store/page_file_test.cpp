// SPDX-License-Identifier: Apache-2.0
#include "store/page_file.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "telemetry/log.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kPageBytes = 5000;
constexpr std::uint32_t kPageSize = 4;
const PageFileContents kContents{.fingerprint = {1, 2}, .page_size = kPageSize, .page_bytes = kPageBytes};

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::uint64_t generation) {
  Bytes bytes(kPageBytes);
  std::mt19937_64 random(generation);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

PageIdentity identity_of(std::uint64_t generation) {
  return {.tenant = 7,
          .generation = generation,
          .parent_generation = generation - 1,
          .depth = 3,
          .tokens = {1, 2, 3, static_cast<std::int32_t>(generation)}};
}

// A directory with its descriptor; logs would only disturb.
class Place {
 public:
  Place() : descriptor_(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY)) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
  }
  ~Place() { ::close(descriptor_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  PageFile open(std::uint32_t num_pages = 8, const PageFileContents& contents = kContents) const {
    return PageFile(descriptor_, contents, num_pages);
  }
  int descriptor() const { return descriptor_; }
  std::filesystem::path index() const { return directory_.path() / "kv-pages.index"; }
  std::filesystem::path data() const { return directory_.path() / "kv-pages.data"; }

 private:
  test::TemporaryDirectory directory_;
  int descriptor_;
};

void write(PageFile& file, std::uint32_t page, std::uint64_t generation) {
  const bool has_room = file.write(page, identity_of(generation), bytes_of(generation));
  REQUIRE(has_room);
}

bool reads_back(const PageFile& file, std::uint32_t page, std::uint64_t generation) {
  Bytes bytes(kPageBytes);
  return file.read(page, identity_of(generation), bytes) && bytes == bytes_of(generation);
}

void overwrite(const std::filesystem::path& path, std::uint64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

TEST_CASE("page file: what was written is there after the process") {
  const Place place;
  std::array<std::uint64_t, 2> secret{};
  {
    auto file = place.open();
    CHECK(file.take_stored().empty());
    secret = file.secret();
    write(file, 2, 10);
    write(file, 5, 11);
    CHECK(reads_back(file, 2, 10));
  }
  auto file = place.open();
  CHECK(file.secret() == secret);
  const auto stored = file.take_stored();
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].disk_page == 2);
  CHECK(stored[0].identity == identity_of(10));
  CHECK(stored[0].age < std::chrono::minutes(1));
  CHECK(stored[1].identity == identity_of(11));
  CHECK(reads_back(file, 2, 10));
  CHECK(reads_back(file, 5, 11));
}

TEST_CASE("page file: a page is read as what it is, or not at all") {
  const Place place;
  auto file = place.open();
  write(file, 0, 10);
  CHECK(!reads_back(file, 0, 11));
  CHECK(!reads_back(file, 1, 10));
  write(file, 0, 11);
  CHECK(!reads_back(file, 0, 10));
  CHECK(reads_back(file, 0, 11));
  file.erase(0);
  CHECK(!reads_back(file, 0, 11));
}

TEST_CASE("page file: what is erased is gone for the next process") {
  const Place place;
  {
    auto file = place.open();
    write(file, 0, 10);
    file.erase(0);
    file.erase(7);  // never written
  }
  CHECK(place.open().take_stored().empty());
}

TEST_CASE("page file: every process has generations of its own") {
  const Place place;
  std::set<std::uint64_t> first;
  for (int i = 0; i < 5; ++i) first.insert(place.open().first_generation());
  CHECK(first.size() == 5);
  CHECK(*first.begin() > 0);
}

TEST_CASE("page file: one that is for something else is begun anew") {
  const Place place;
  const auto fill = [&] {
    auto file = place.open();
    write(file, 0, 10);
  };
  for (const PageFileContents& other :
       {PageFileContents{.fingerprint = {1, 3}, .page_size = kPageSize, .page_bytes = kPageBytes},
        PageFileContents{.fingerprint = {1, 2}, .page_size = kPageSize, .page_bytes = 4096},
        PageFileContents{.fingerprint = {1, 2}, .page_size = 8, .page_bytes = kPageBytes}}) {
    fill();
    CHECK(place.open(8, other).take_stored().empty());
    CHECK(place.open().take_stored().empty());
  }
}

TEST_CASE("page file: it shrinks and grows with what it may have") {
  const Place place;
  {
    auto file = place.open(8);
    write(file, 1, 10);
    write(file, 7, 11);
  }
  CHECK(place.open(4).take_stored().size() == 1);
  CHECK(std::filesystem::file_size(place.data()) <= 4 * 8192);
  auto file = place.open(100);
  CHECK(file.take_stored().size() == 1);
  write(file, 99, 12);
  CHECK(reads_back(file, 99, 12));
}

TEST_CASE("page file: a data file that is cut costs the pages that were in it") {
  const Place place;
  {
    auto file = place.open();
    for (std::uint32_t page = 0; page < 4; ++page) write(file, page, 10 + page);
  }
  std::filesystem::resize_file(place.data(), 2 * 8192 + 100);
  const auto file = place.open();
  CHECK(reads_back(file, 0, 10));
  CHECK(reads_back(file, 1, 11));
  CHECK(!reads_back(file, 2, 12));
  CHECK(!reads_back(file, 3, 13));
}

TEST_CASE("page file: a flipped bit is found, wherever it is") {
  const Place place;
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    {
      auto file = place.open();
      for (std::uint32_t page = 0; page < 4; ++page) write(file, page, 10 + page);
    }
    const auto path = round % 2 == 0 ? place.index() : place.data();
    const std::uint64_t offset = random() % std::filesystem::file_size(path);
    std::ifstream in(path, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset));
    const auto flipped = static_cast<char>(in.get() ^ (1 << random() % 8));
    overwrite(path, offset, std::string(1, flipped));
    auto file = place.open();
    for (const StoredPage& page : file.take_stored()) {
      CHECK(page.identity == identity_of(10 + page.disk_page));
      Bytes bytes(kPageBytes);
      if (file.read(page.disk_page, page.identity, bytes)) CHECK(bytes == bytes_of(page.identity.generation));
    }
  }
}

TEST_CASE("page file: whatever is in the files, opening them is safe") {
  const Place place;
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    {
      auto file = place.open();
      for (std::uint32_t page = 0; page < 4; ++page) write(file, page, 10 + page);
    }
    const auto path = random() % 2 == 0 ? place.index() : place.data();
    if (random() % 3 == 0) {
      std::filesystem::resize_file(path, random() % 12000);
    } else {
      std::string noise(random() % 600 + 1, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      overwrite(path, random() % std::filesystem::file_size(path), noise);
    }
    auto file = place.open();
    for (const StoredPage& page : file.take_stored()) {
      CHECK(page.identity.tokens.size() == kPageSize);
      Bytes bytes(kPageBytes);
      if (file.read(page.disk_page, page.identity, bytes)) CHECK(bytes == bytes_of(page.identity.generation));
    }
    write(file, 6, 99);
    CHECK(reads_back(file, 6, 99));
  }
}

// As a process that is killed leaves it: after any number of system calls.
TEST_CASE("page file: a write that was cut short leaves no page") {
  const Place place;
  { place.open(); }
  for (const std::uint64_t limit : {4096 + 0, 4096 + 100, 4096 + 255}) {
    {
      auto file = place.open();
      write(file, 0, 10);
    }
    std::filesystem::resize_file(place.index(), limit);
    auto file = place.open();
    CHECK(file.take_stored().empty());
  }
}

TEST_CASE("page file: links are not followed, and names shared with others not taken") {
  const Place place;
  std::filesystem::create_symlink("/dev/null", place.index());
  CHECK_THROWS_AS(place.open(), std::system_error);
  std::filesystem::remove(place.index());
  std::filesystem::create_directory(place.index());
  CHECK_THROWS_AS(place.open(), std::system_error);
  std::filesystem::remove(place.index());
  { place.open(); }
  std::filesystem::create_hard_link(place.index(), place.index().string() + ".2");
  CHECK_THROWS_AS(place.open(), std::runtime_error);
}

TEST_CASE("page file: pages of another size are refused") {
  const Place place;
  CHECK_THROWS_AS(place.open(8, {.fingerprint = {}, .page_size = 0, .page_bytes = 1}), std::runtime_error);
  CHECK_THROWS_AS(place.open(8, {.fingerprint = {}, .page_size = 33, .page_bytes = 1}), std::runtime_error);
  auto file = place.open();
  CHECK_THROWS_AS((void)file.write(0, identity_of(10), Bytes(12)), std::invalid_argument);
  Bytes small(12);
  write(file, 0, 10);
  CHECK(!file.read(0, identity_of(10), small));
}

TEST_CASE("page file: it does not grow into what is reserved, and writes what it has space for") {
  const Place place;
  DiskSpace space{.total = 1 << 30};
  space.available = space.total / 10 + 2 * 8192;  // a tenth is reserved
  PageFile file(place.descriptor(), kContents, 8, [&](int) { return space; });
  write(file, 0, 10);
  space.available -= 8192;
  write(file, 1, 11);
  space.available -= 8192;
  CHECK_FALSE(file.write(2, identity_of(12), bytes_of(12)));
  CHECK(!reads_back(file, 2, 12));
  write(file, 1, 13);  // in place
  CHECK(reads_back(file, 0, 10));
  CHECK(reads_back(file, 1, 13));
  CHECK(file.num_pages_lacking() == 0);
  space.available -= 8193;
  CHECK(file.num_pages_lacking() == 2);
  file.release(0);
  CHECK_FALSE(file.write(0, identity_of(14), bytes_of(14)));
  space.available = space.total;
  write(file, 0, 14);
  CHECK(reads_back(file, 0, 14));
}

TEST_CASE("page file: what is released is space again, what is erased is zeros") {
  const Place place;
  {
    auto file = place.open(32);
    for (std::uint32_t page = 0; page < 32; ++page) write(file, page, 10 + page);
    const auto blocks = [&] {
      struct stat status {};
      REQUIRE(::stat(place.data().c_str(), &status) == 0);
      return status.st_blocks;
    };
    const auto before = blocks();
    for (std::uint32_t page = 0; page < 16; ++page) file.release(page);
    if (blocks() == before) MESSAGE("this file system gives no part of a file back");
    CHECK(blocks() <= before);
    file.erase(20);
    CHECK(!reads_back(file, 3, 13));
    CHECK(!reads_back(file, 20, 30));
    CHECK(reads_back(file, 21, 31));
  }
  const auto bytes = test::file_text(place.data());
  CHECK(bytes.substr(20 * 8192, kPageBytes) == std::string(kPageBytes, '\0'));
  CHECK(place.open(32).take_stored().size() == 15);
}

TEST_CASE("page file: contents that no record knows are not kept") {
  const Place place;
  {
    auto file = place.open();
    for (std::uint32_t page = 0; page < 4; ++page) write(file, page, 10 + page);
  }
  overwrite(place.index(), 4096 + 256, std::string(256, '\0'));  // killed in the midst of writing
  auto file = place.open();
  CHECK(file.take_stored().size() == 3);
  CHECK(test::file_text(place.data()).substr(8192, kPageBytes) == std::string(kPageBytes, '\0'));
  CHECK(reads_back(file, 2, 12));
}

TEST_CASE("page file: the files are for the owner only, whatever they were") {
  const Place place;
  { place.open(); }
  for (const auto& path : {place.index(), place.data()})
    std::filesystem::permissions(path, std::filesystem::perms(0644));
  { place.open(); }
  for (const auto& path : {place.index(), place.data()})
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));
}

// The kernel's own limit stands in for a disk that is full.
TEST_CASE("page file: a disk that is full fails the write, and the page is not there") {
  const Place place;
  auto file = place.open(64);
  write(file, 0, 10);
  write(file, 3, 13);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = 5 * 8192, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  CHECK_THROWS_AS(write(file, 40, 11), std::system_error);
  CHECK_NOTHROW(write(file, 3, 12));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(!reads_back(file, 40, 11));
  CHECK(reads_back(file, 0, 10));
  CHECK(reads_back(file, 3, 12));
  CHECK_NOTHROW(write(file, 40, 11));
  CHECK(reads_back(file, 40, 11));
}

}  // namespace
}  // namespace troupe
