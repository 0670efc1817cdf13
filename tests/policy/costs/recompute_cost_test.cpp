// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/recompute_cost.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

TEST_CASE("recompute cost: without attention every page costs the same") {
  const RecomputeCost cost{.constant = 3.0, .attention = {}};
  CHECK(cost.of_page(0) == 3.0);
  CHECK(cost.of_page(1000) == 3.0);
}

TEST_CASE("recompute cost: powers of two are as measured, between them a straight line") {
  const RecomputeCost cost{.constant = 1.0, .attention = {1.0, 2.0, 6.0}};
  CHECK(cost.of_page(0) == 1.0);
  CHECK(cost.of_page(1) == 2.0);
  CHECK(cost.of_page(2) == 3.0);
  CHECK(cost.of_page(3) == doctest::Approx(5.0));
  CHECK(cost.of_page(4) == 7.0);
}

TEST_CASE("recompute cost: beyond what was measured attention grows in proportion") {
  const RecomputeCost cost{.constant = 1.0, .attention = {1.0, 2.0, 6.0}};
  CHECK(cost.of_page(8) == doctest::Approx(13.0));
}

}  // namespace
}  // namespace troupe
