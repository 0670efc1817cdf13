// SPDX-License-Identifier: Apache-2.0
#include "policy/iteration_time.hpp"

#include <doctest/doctest.h>

#include <random>

namespace troupe {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("iteration time: it learns what batches cost, long and short ones") {
  IterationTime estimate;
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto tokens = 1 + static_cast<std::uint32_t>(random() % 512);
    estimate.observe(tokens, milliseconds(2) + microseconds(100) * tokens);
  }
  const nanoseconds expected = milliseconds(2) + microseconds(100) * 500;
  CHECK(estimate.predict(500) > expected * 9 / 10);
  CHECK(estimate.predict(500) < expected * 11 / 10);
}

TEST_CASE("iteration time: it is never negative and nothing is learnt of no tokens") {
  IterationTime estimate;
  CHECK(estimate.predict(100) == nanoseconds(0));
  estimate.observe(0, seconds(5));
  CHECK(estimate.predict(100) == nanoseconds(0));
  estimate.observe(10, seconds(5));
  for (int i = 0; i < 100; ++i) estimate.observe(1000, nanoseconds(1));
  CHECK(estimate.predict(1) >= nanoseconds(0));
}

TEST_CASE("stall: ten seconds, or five times what was predicted") {
  CHECK(stall_threshold(milliseconds(1)) == seconds(10));
  CHECK(stall_threshold(seconds(3)) == seconds(15));
}

}  // namespace
}  // namespace troupe
