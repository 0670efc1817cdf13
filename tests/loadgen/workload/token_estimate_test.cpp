// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/token_estimate.hpp"

#include <doctest/doctest.h>

using troupe::loadgen::estimated_tokens;

TEST_CASE("token estimate: four tokens for three words, rounded up") {
  CHECK(estimated_tokens("") == 0);
  CHECK(estimated_tokens("word") == 2);
  CHECK(estimated_tokens("one two three") == 4);
  CHECK(estimated_tokens("  one\ttwo\n\nthree ") == 4);
  CHECK(estimated_tokens("   ") == 1);
}
