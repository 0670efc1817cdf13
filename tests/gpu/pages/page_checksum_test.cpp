// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/page_checksum.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

namespace troupe {

TEST_CASE("page checksum: where pieces are cut changes nothing") {
  std::mt19937_64 random(1);
  for (const std::size_t size : {1, 64, 240, 241, 1000, 5000}) {
    CAPTURE(size);
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    PageChecksum checksum(7);
    for (std::size_t at = 0; at < size;) {
      const std::size_t length = std::min<std::size_t>(size - at, random() % 300 + 1);
      checksum.add(std::span(bytes).subspan(at, length));
      at += length;
    }
    CHECK(checksum.value() == page_checksum(bytes, 7));
    CHECK(checksum.value() != page_checksum(bytes, 8));
  }
}

}  // namespace troupe
