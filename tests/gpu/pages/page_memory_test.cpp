// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/page_memory.hpp"

#include <doctest/doctest.h>

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
