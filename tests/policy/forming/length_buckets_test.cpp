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

TEST_CASE("length buckets: a bucket ends with a multiple of the width") {
  const LengthBuckets buckets(10);
  CHECK(buckets.bucket_of(1) == 0);
  CHECK(buckets.bucket_of(10) == 0);
  CHECK(buckets.bucket_of(11) == 1);
  CHECK(buckets.bucket_of(330) == 32);
  CHECK(LengthBuckets(1).bucket_of(7) == 6);
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
        CHECK(buckets.bucket_of(waiting[index]) == buckets.bucket_of(waiting[batch.front()]));
      if (buckets.bucket_of(waiting[batch.front()]) == buckets.bucket_of(watched)) break;
      REQUIRE(turn < 11);
      for (const std::size_t index : batch) waiting[index] = 1 + random() % 60;
      waiting.back() = watched;
    }
  }
}
