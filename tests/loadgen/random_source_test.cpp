// SPDX-License-Identifier: Apache-2.0
#include "loadgen/random_source.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <set>

using namespace troupe::loadgen;

TEST_CASE("random source: a seed means the same numbers everywhere, for ever") {
  // From Blackman's and Vigna's own C code of both generators.
  RandomSource random(42);
  CHECK(random.next() == 0xD0764D4F4476689FULL);
  CHECK(random.next() == 0x519E4174576F3791ULL);
  CHECK(random.next() == 0xFBE07CFB0C24ED8CULL);
}
