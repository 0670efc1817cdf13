// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/page_memory.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace troupe;

TEST_CASE("page memory: large memory begins at a huge page, and every byte of it can be written") {
  for (const std::size_t size : {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes - 1}) {
    std::vector<PageMemory> several;  // no two lie alike
    for (int i = 0; i < 3; ++i) several.emplace_back(size);
    for (const PageMemory& memory : several) {
      CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % kHugePageBytes == 0);
      CHECK(memory.size_bytes() == size);
      memory.get()[0] = memory.get()[size - 1] = std::byte{7};
      CHECK(memory.get()[size - 1] == std::byte{7});
    }
  }
}

TEST_CASE("page memory: small memory is as long as asked for, and none is no memory") {
  const PageMemory small(5000);
  REQUIRE(small.get() != nullptr);
  small.get()[4999] = std::byte{1};
  CHECK(small.size_bytes() == 5000);
  CHECK(PageMemory(0).get() == nullptr);
}

TEST_CASE("page memory: what is released is no longer resident, what is kept has its bytes") {
  PageMemory memory(3 * kHugePageBytes + 5000);
  const auto num_resident = [&memory](std::size_t first, std::size_t end) {  // of pages of 4096 bytes
    std::vector<unsigned char> pages((end - first + 4095) / 4096);
    REQUIRE(::mincore(memory.get() + first, end - first, pages.data()) == 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) != 0; });
  };
  std::fill_n(memory.get(), memory.size_bytes(), std::byte{7});
  REQUIRE(num_resident(0, memory.size_bytes()) == 3 * 512 + 2);
  memory.release_physical(kHugePageBytes + 1);
  CHECK(num_resident(0, 2 * kHugePageBytes) == 2 * 512);
  CHECK(num_resident(2 * kHugePageBytes, memory.size_bytes()) == 0);
  CHECK(memory.get()[2 * kHugePageBytes - 1] == std::byte{7});
  memory.release_physical();
  CHECK(num_resident(0, memory.size_bytes()) == 0);
}
