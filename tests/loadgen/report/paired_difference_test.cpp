// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/paired_difference.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace troupe::loadgen {
namespace {

using Pairs = std::vector<std::pair<double, double>>;

TEST_CASE("paired difference: what differs between seeds does not hide what differs between arms") {
  // The seeds range over 100 to 500, the second arm is 4 to 6 above the first.
  const auto difference =
      paired_difference(Pairs{{100, 104}, {300, 305}, {500, 506}, {200, 205}, {400, 405}});
  CHECK(difference.count == 5);
  CHECK(difference.base == doctest::Approx(300));
  CHECK(difference.other == doctest::Approx(305));
  CHECK(difference.high - 5 == doctest::Approx(2.776 * std::sqrt(0.5 / 5)));
  CHECK(5 - difference.low == doctest::Approx(difference.high - 5));
  CHECK(difference.is_known());
}

TEST_CASE("paired difference: one pair, and arms that take turns, say nothing") {
  CHECK_FALSE(paired_difference(Pairs{{1, 2}}).is_known());
  CHECK_FALSE(paired_difference({}).is_known());
  CHECK_FALSE(paired_difference(Pairs{{1, 2}, {2, 1}, {1, 2}, {2, 1}}).is_known());
  CHECK_FALSE(paired_difference(Pairs{{1, 1}, {2, 2}}).is_known());
}

TEST_CASE("paired difference: of two equal arms one in twenty is called different, not one in three") {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(10, 1);
  for (const int num_seeds : {2, 5}) {
    int num_known = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      Pairs pairs(static_cast<std::size_t>(num_seeds));
      for (auto& [base, other] : pairs) {
        base = noise(random);
        other = noise(random);
      }
      num_known += paired_difference(pairs).is_known() ? 1 : 0;
    }
    CHECK(num_known < 0.065 * 2000);
    CHECK(num_known > 0.035 * 2000);
  }
}

TEST_CASE("paired difference: intervals of many seeds narrow without a step") {
  const auto half_width = [](std::size_t num_seeds) {
    Pairs pairs(num_seeds, {0, 0});
    for (std::size_t i = 0; i < num_seeds; ++i) pairs[i].second = i % 2 == 0 ? 1 : -1;
    const auto difference = paired_difference(pairs);
    return (difference.high - difference.low) / 2 * std::sqrt(static_cast<double>(num_seeds - 1));
  };
  CHECK(half_width(32) == doctest::Approx(2.040).epsilon(0.002));  // Student's t of 31 degrees
  CHECK(half_width(61) == doctest::Approx(2.000).epsilon(0.002));  // of 60
}

TEST_CASE("paired difference: an arm that never answers is worse than one that always does") {
  const double never = HUGE_VAL;
  CHECK(paired_difference(Pairs{{1, never}, {2, never}}).low > 0);
  CHECK(paired_difference(Pairs{{never, 1}, {never, 2}}).high < 0);
  CHECK_FALSE(paired_difference(Pairs{{1, never}, {2, 2}}).is_known());
  CHECK_FALSE(paired_difference(Pairs{{never, never}, {never, never}}).is_known());
  const auto some = paired_difference(Pairs{{never, 1}, {2, never}, {1, never}});
  CHECK_FALSE(some.is_finite());
  CHECK(some.num_endless_base == 1);
  CHECK(some.num_endless_other == 2);
}

}  // namespace
}  // namespace troupe::loadgen
