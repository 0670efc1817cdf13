// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/copy_budget.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("copy budget: half of an iteration's link time, whatever the link") {
  const LoadCost fast{.fixed = 0, .per_page = 100'000};
  CHECK(max_copies_ahead(milliseconds(20), fast) == 100);  // a prefill of 2,048 tokens fills 64
  CHECK(max_copies_ahead(milliseconds(2), fast) == 10);
  const LoadCost slow{.fixed = 500'000, .per_page = 2'000'000};
  CHECK(max_copies_ahead(milliseconds(20), slow) == 4);  // 9.5 ms are left of ten
}

TEST_CASE("copy budget: something goes however short the iteration, and not all however long") {
  const LoadCost link{.fixed = 1'000'000, .per_page = 100'000};
  CHECK(max_copies_ahead(microseconds(10), link) == 1);
  CHECK(max_copies_ahead({}, link) == 1);
  CHECK(max_copies_ahead(std::chrono::hours(1), link) == kMostCopiesAhead);
}

TEST_CASE("copy budget: a few where copies were not measured") {
  CHECK(max_copies_ahead(milliseconds(20), {}) == kCopiesAheadUnmeasured);
}

}  // namespace
}  // namespace troupe
