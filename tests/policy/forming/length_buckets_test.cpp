// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/length_buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace troupe;

namespace {

using Lengths = std::vector<std::uint32_t>;
using Indexes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("length buckets: a length is padded to the longest of its bucket") {
  const LengthBuckets buckets(10);
  CHECK(buckets.padded(1) == 10);
  CHECK(buckets.padded(10) == 10);
  CHECK(buckets.padded(11) == 20);
  CHECK(buckets.padded(330) == 330);
  CHECK(LengthBuckets(1).padded(7) == 7);
}

TEST_CASE("length buckets: buckets take turns, each gives its oldest requests") {
  LengthBuckets buckets(10);
  const Lengths lengths = {25, 3, 21, 30, 8, 100};
  CHECK(buckets.take_turn(lengths, 2) == Indexes{1, 4});
  CHECK(buckets.take_turn(lengths, 2) == Indexes{0, 2});
  CHECK(buckets.take_turn(lengths, 2) == Indexes{5});
  CHECK(buckets.take_turn(lengths, 2) == Indexes{1, 4});
  CHECK(buckets.take_turn({}, 2).empty());
}

TEST_CASE("length buckets: who waits is served, however many come to other buckets") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    LengthBuckets buckets(5);
    Lengths waiting(40);
    for (std::uint32_t& length : waiting) length = 1 + random() % 60;
    const std::uint32_t watched = waiting.back();
    for (int turn = 0; turn < 12; ++turn) {  // of as many buckets
      const Indexes batch = buckets.take_turn(waiting, 100);
      REQUIRE(!batch.empty());
      for (const std::size_t index : batch)
        CHECK(buckets.padded(waiting[index]) == buckets.padded(waiting[batch.front()]));
      if (buckets.padded(waiting[batch.front()]) == buckets.padded(watched)) break;
      REQUIRE(turn < 11);
      for (const std::size_t index : batch) waiting[index] = 1 + random() % 60;
      waiting.back() = watched;
    }
  }
}
