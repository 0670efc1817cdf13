// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/host_pages.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpu/pages/page_checksum.hpp"

namespace troupe {
namespace {

void store(HostPages& pages, std::uint32_t page, std::uint64_t generation, int value) {
  const auto bytes = pages.begin_store(page);
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
  pages.finish_store(page, generation);
}

TEST_CASE("host pages: what was stored is loaded, under its generation only") {
  HostPages pages(3, 96);
  store(pages, 1, 7, 42);
  REQUIRE(pages.load(1, 7).size() == 96);
  CHECK(pages.load(1, 7)[95] == std::byte{42});
  CHECK(pages.load(1, 8).empty());
  CHECK(pages.load(0, 7).empty());
}

TEST_CASE("host pages: a page never stored holds nothing, whatever is asked for") {
  HostPages pages(1, 64);
  CHECK(pages.load(0, 0).empty());
  CHECK(pages.load(0, 1).empty());
}

TEST_CASE("host pages: a store that never ended leaves nothing, the old contents neither") {
  HostPages pages(1, 64);
  store(pages, 0, 5, 1);
  pages.begin_store(0);
  CHECK(pages.load(0, 5).empty());
}

TEST_CASE("host pages: one flipped bit anywhere is noticed") {
  HostPages pages(1, 64);
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) {
    store(pages, 0, bit + 1, 3);
    const auto contents = pages.load(0, bit + 1);
    REQUIRE(contents.size() == 64);
    // As bad memory would, behind the class's back.
    const_cast<std::byte&>(contents[bit / 8]) ^= static_cast<std::byte>(1U << bit % 8);
    CHECK(pages.load(0, bit + 1).empty());
  }
}

TEST_CASE("host pages: whole or in pieces, a page has one checksum") {
  HostPages pages(2, 96);
  for (const std::uint32_t page : {0U, 1U}) {
    const auto bytes = pages.begin_store(page);
    std::fill(bytes.begin(), bytes.end(), std::byte{5});
  }
  PageChecksum checksum(7);
  checksum.add(pages.begin_store(0).first(40));
  checksum.add(pages.begin_store(0).subspan(40));
  pages.finish_store(0, 7, checksum.value());
  pages.finish_store(1, 7);
  CHECK(pages.load(0, 7).size() == 96);
  CHECK(pages.find(0, 7).checksum == pages.find(1, 7).checksum);
  CHECK(pages.find(0, 8).bytes.empty());
}

TEST_CASE("host pages: different threads may use different pages at once") {
  constexpr std::uint32_t kNumThreads = 4;
  HostPages pages(kNumThreads, 64);
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong{0};
  for (std::uint32_t page = 0; page < kNumThreads; ++page)
    threads.emplace_back([&, page] {
      for (std::uint64_t generation = 1; generation <= 500; ++generation) {
        store(pages, page, generation, static_cast<int>(page));
        num_wrong += pages.load(page, generation).size() == 64 ? 0 : 1;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(num_wrong == 0);
}

TEST_CASE("host pages: pages beyond the last are refused") {
  HostPages pages(2, 64);
  CHECK_THROWS(pages.begin_store(2));
  CHECK_THROWS(pages.load(2, 1));
}

TEST_CASE("host pages: what one process stores, another finds, with its header") {
  HostPages ours = HostPages::shared(5, 96);
  store(ours, 4, 7, 42);
  HostPages theirs = HostPages::map_shared(ours.descriptor(), 5, 96);
  REQUIRE(theirs.load(4, 7).size() == 96);
  CHECK(theirs.load(4, 7)[95] == std::byte{42});
  CHECK(theirs.load(3, 7).empty());
  store(theirs, 0, 9, 1);
  CHECK(ours.load(0, 9).size() == 96);
  CHECK(ours.memory().size() == 5 * 96);
  CHECK(ours.memory().data() == ours.begin_store(0).data());
}

TEST_CASE("host pages: only memory of the right size, that nobody can cut, is shared") {
  const HostPages pages = HostPages::shared(5, 4096);
  CHECK_THROWS_AS(HostPages::map_shared(pages.descriptor(), 6, 4096), std::runtime_error);
  CHECK_THROWS_AS(HostPages::map_shared(-1, 5, 4096), std::runtime_error);
  CHECK_THROWS_AS(HostPages::map_shared(0, 5, 4096), std::runtime_error);
  CHECK(::ftruncate(pages.descriptor(), 4096) != 0);
  CHECK(HostPages(1, 64).descriptor() == -1);
  CHECK_THROWS_AS(HostPages(1, 64).begin_store(1), std::out_of_range);
}

TEST_CASE("host pages: more than can be shared is refused with the number") {
  CHECK_THROWS_WITH(HostPages::shared(1U << 31, std::size_t{1} << 32),
                    doctest::Contains("of memory between processes: "));
}

}  // namespace
}  // namespace troupe
