// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_bins.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

TEST_CASE("length bins: they begin at 1, and each at more than the one before, by a half at most from 4 on") {
  CHECK(first_length(0) == 1);
  for (std::size_t bin = 1; bin <= kNumLengthBins; ++bin) {
    CAPTURE(bin);
    CHECK(first_length(bin) > first_length(bin - 1));
    if (first_length(bin - 1) >= 4) CHECK(first_length(bin) <= first_length(bin - 1) * 3 / 2);
  }
}

TEST_CASE("length bins: a length is in the bin that begins at or below it") {
  for (std::uint32_t length = 1; length < 70'000; ++length) {
    const std::size_t bin = length_bin(length);
    CHECK_MESSAGE(first_length(bin) <= length, length);
    if (bin + 1 < kNumLengthBins) CHECK_MESSAGE(first_length(bin + 1) > length, length);
  }
  CHECK(length_bin(0) == 0);
  CHECK(length_bin(std::numeric_limits<std::uint32_t>::max()) == kNumLengthBins - 1);
}

}  // namespace
}  // namespace troupe
