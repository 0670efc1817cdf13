// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/page_timing.hpp"

#include <doctest/doctest.h>

#include <random>

namespace troupe {
namespace {

TEST_CASE("page timing: attention is what a page takes more than the first") {
  const PageTimes times{.first = 100, .by_depth = {{1, 110}, {2, 120}, {3, 130}}};
  const RecomputeCost cost = recompute_cost_of(times, 3);
  CHECK(cost.of_page(0) == doctest::Approx(100));
  CHECK(cost.of_page(1) == doctest::Approx(110));
  CHECK(cost.of_page(2) == doctest::Approx(120));
  CHECK(cost.of_page(3) == doctest::Approx(130));
}

TEST_CASE("page timing: what a batch costs however small it is does not count") {
  // 60 for any batch, 40 for a page, 10 for each page in front of it.
  PageTimes times{.first = 100, .by_depth = {{1, 110}, {2, 120}, {4, 140}, {7, 170}}};
  times.chunk_pages = 4;
  times.chunk = 60 + 4 * 40 + 10 * (0 + 1 + 2 + 3);
  const RecomputeCost cost = recompute_cost_of(times, 7);
  CHECK(cost.of_page(0) == doctest::Approx(40));
  CHECK(cost.of_page(4) == doctest::Approx(80));
  CHECK(cost.of_page(7) == doctest::Approx(110));
}

TEST_CASE("page timing: contexts there was no time for lie on a line between their neighbours") {
  const PageTimes times{.first = 100, .by_depth = {{4, 140}, {31, 680}}};
  const RecomputeCost cost = recompute_cost_of(times, 31);
  CHECK(cost.of_page(1) == doctest::Approx(110));
  CHECK(cost.of_page(2) == doctest::Approx(120));
  CHECK(cost.of_page(8) == doctest::Approx(220));
  CHECK(cost.of_page(31) == doctest::Approx(680));
}

TEST_CASE("page timing: a deepest page that takes far more than the others promise was disturbed") {
  CHECK(is_in_proportion({.first = 100, .by_depth = {{32, 180}, {63, 260}}}));
  CHECK(!is_in_proportion({.first = 100, .by_depth = {{32, 180}, {63, 700}}}));
  // On a device that has cores to spare, the first few pages in front are free.
  CHECK(is_in_proportion({.first = 100, .by_depth = {{1, 99}, {2, 101}, {3, 108}}}));
  CHECK(is_in_proportion({.first = 100, .by_depth = {{63, 700}}}));
  CHECK(is_in_proportion({.first = 100, .by_depth = {}}));
}

TEST_CASE("page timing: a context of one page has no attention to measure") {
  const RecomputeCost cost = recompute_cost_of({.first = 100, .by_depth = {}}, 0);
  CHECK(cost.of_page(0) == 100);
  CHECK(cost.of_page(9) == 100);
}

TEST_CASE("page timing: whatever was measured, costs are above zero and never fall with depth") {
  std::mt19937_64 random(3);
  const auto time = [&] { return static_cast<double>(1 + random() % 1000); };
  for (int round = 0; round < 3000; ++round) {
    const auto deepest = static_cast<std::uint32_t>(random() % 70);
    PageTimes times{.first = time(), .by_depth = {}};
    if (deepest > 0) times.by_depth[deepest] = time();
    for (std::uint32_t depth = 1; depth < deepest; depth *= 2)
      if (random() % 3 > 0) times.by_depth[depth] = time();
    if (random() % 4 > 0) {
      times.chunk_pages = static_cast<std::uint32_t>(random() % 9);
      times.chunk = time();
    }
    const RecomputeCost cost = recompute_cost_of(times, deepest);
    double before = 0;
    for (std::uint32_t depth = 0; depth < 100; ++depth) {
      REQUIRE(cost.of_page(depth) > 0);
      REQUIRE(cost.of_page(depth) >= before * (1 - 1e-12));
      before = cost.of_page(depth);
    }
  }
}

TEST_CASE("page timing: a load's fixed part is what one page takes beyond its share of many") {
  const LoadCost cost = load_cost_of(25, 70, 10);
  CHECK(cost.per_page == doctest::Approx(5));
  CHECK(cost.fixed == doctest::Approx(20));
}

TEST_CASE("page timing: loads that can't be told apart cost what they took") {
  CHECK(load_cost_of(25, 25, 1) == LoadCost{.fixed = 0, .per_page = 25});
  CHECK(load_cost_of(25, 20, 10) == LoadCost{.fixed = 0, .per_page = 2});
  const LoadCost slow_together = load_cost_of(1, 100, 10);
  CHECK(slow_together.per_page == doctest::Approx(10));
  CHECK(slow_together.fixed == 0);
}

TEST_CASE("page timing: a curve is flat if its ends are, and then all pages cost the same") {
  const RecomputeCost cost{.constant = 100, .attention = {1, 2, 4}};
  CHECK(dearest_over_cheapest(cost, 4) == doctest::Approx(1.04));
  CHECK(dearest_over_cheapest(cost, 8) == doctest::Approx(1.08));
  CHECK(dearest_over_cheapest(cost, 0) == 1.0);
  const RecomputeCost flat = flattened(cost, 4);
  CHECK(flat.of_page(0) == doctest::Approx(102));
  CHECK(flat.of_page(4000) == doctest::Approx(102));
}

}  // namespace
}  // namespace troupe
