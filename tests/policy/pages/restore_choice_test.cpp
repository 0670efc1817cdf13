// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/restore_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace troupe {
namespace {

using enum KvPlace;
using Choice = std::vector<bool>;

// Pages cost 10, 14, 18, 22 … to compute.
RestoreCosts costs_with(LoadCost host, LoadCost disk = {}) {
  return {.recompute = {.constant = 10, .attention = {4, 8}}, .host = host, .disk = disk};
}

TEST_CASE("restore choice: of what was not measured, everything is loaded") {
  const std::vector<KvPlace> places{kHost, kNowhere, kDisk, kDevice, kHost};
  CHECK(pages_to_load(places, {}) == Choice{true, false, true, false, true});
}

TEST_CASE("restore choice: pages that are computed faster than loaded are not loaded") {
  const std::vector<KvPlace> places{kHost, kHost, kHost, kHost};
  const auto costs = costs_with({.fixed = 0, .per_page = 15});
  CHECK(pages_to_load(places, costs) == Choice{false, false, true, true});
}

TEST_CASE("restore choice: a trip that costs more than its pages gain is not made") {
  const std::vector<KvPlace> places{kHost, kHost, kHost, kHost};
  // The last two gain 3 and 7.
  CHECK(pages_to_load(places, costs_with({.fixed = 10, .per_page = 15})) == Choice(4, false));
  CHECK(pages_to_load(places, costs_with({.fixed = 9, .per_page = 15})) == Choice{false, false, true, true});
}

TEST_CASE("restore choice: a slow disk does not keep pages from the host") {
  const std::vector<KvPlace> places{kDisk, kHost, kDisk, kHost};
  const auto costs = costs_with({.fixed = 1, .per_page = 1}, {.fixed = 0, .per_page = 1000});
  CHECK(pages_to_load(places, costs) == Choice{false, true, false, true});
}

TEST_CASE("restore choice: nothing to restore takes no time") {
  CHECK(pages_to_load({}, costs_with({.fixed = 5, .per_page = 1})).empty());
  const std::vector<KvPlace> places{kDevice, kDevice};
  CHECK(restore_time(places, Choice(2, false), costs_with({.fixed = 5, .per_page = 1})) == 0);
}

LoadCost random_load(std::mt19937_64& random) {
  return {.fixed = static_cast<double>(random() % 60), .per_page = static_cast<double>(random() % 40)};
}

TEST_CASE("restore choice: against every possible choice, none takes less time") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const LoadCost host = random_load(random);
    RestoreCosts costs = costs_with(host, random_load(random));
    for (double& attention : costs.recompute.attention)
      attention = static_cast<double>(random() % 20);  // as noisy measurements may be
    std::vector<KvPlace> places(random() % 9);
    for (KvPlace& place : places) place = static_cast<KvPlace>(random() % 4);
    double least = HUGE_VAL;
    for (unsigned bits = 0; bits < 1U << places.size(); ++bits) {
      Choice choice(places.size());
      bool is_possible = true;
      for (std::size_t i = 0; i < places.size(); ++i) {
        choice[i] = (bits >> i & 1U) != 0;
        if (choice[i] && (places[i] == kDevice || places[i] == kNowhere)) is_possible = false;
      }
      if (is_possible) least = std::min(least, restore_time(places, choice, costs));
    }
    const Choice chosen = pages_to_load(places, costs);
    REQUIRE(restore_time(places, chosen, costs) == doctest::Approx(least));
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i] == kDevice || places[i] == kNowhere) REQUIRE(!chosen[i]);
  }
}

}  // namespace
}  // namespace troupe
