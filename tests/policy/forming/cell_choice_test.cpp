// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/cell_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace troupe;

namespace {

constexpr std::size_t kLow = 0, kHigh = 1;

std::vector<CellLoad> loads(CellLoad low, CellLoad high) {
  low.priority = 0;
  high.priority = 1;
  return {low, high};
}

}  // namespace

TEST_CASE("cell choice: a full batch comes before a later stage") {
  const CellTurns turns(2);
  CHECK(turns.next(loads({.num_ready = 8, .max_batch = 8}, {.num_ready = 7, .max_batch = 8})) == kLow);
  CHECK(turns.next(loads({.num_ready = 9, .max_batch = 8}, {.num_ready = 8, .max_batch = 8})) == kHigh);
}

TEST_CASE("cell choice: without a full batch a type that runs nowhere comes first, then any") {
  const CellTurns turns(2);
  CHECK(turns.next(loads({.num_ready = 1, .max_batch = 8},
                         {.num_ready = 5, .max_batch = 8, .num_in_flight = 1})) == kLow);
  CHECK(turns.next(loads({.num_ready = 1, .max_batch = 8, .num_in_flight = 2},
                         {.num_ready = 5, .max_batch = 8, .num_in_flight = 1})) == kHigh);
  CHECK(turns.next(loads({.num_ready = 1, .max_batch = 8}, {.num_ready = 5, .max_batch = 8})) == kHigh);
  CHECK_FALSE(turns.next(loads({.max_batch = 8}, {.max_batch = 8})));
}

TEST_CASE("cell choice: so many tasks of one type in a row, while they are large enough") {
  CellTurns turns(2, 3);
  const auto both = loads({.num_ready = 4, .max_batch = 9, .min_batch = 2},
                          {.num_ready = 4, .max_batch = 9, .min_batch = 2});
  turns.submitted(kLow, both);
  CHECK(turns.next(both) == kLow);
  const auto few = loads({.num_ready = 1, .max_batch = 9, .min_batch = 2}, {.num_ready = 4, .max_batch = 9});
  CHECK(turns.next(few) == kHigh);
  turns.submitted(kLow, both);
  turns.submitted(kLow, both);
  CHECK(turns.next(both) == kHigh);  // the fourth is another's
}

TEST_CASE("cell choice: under any load a type with work is passed over a bounded number of times") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::size_t num_cells = 2 + random() % 3;
    CellTurns turns(num_cells, 1 + random() % 5);
    std::vector<std::uint32_t> passed_over(num_cells);
    for (int step = 0; step < 400; ++step) {
      std::vector<CellLoad> now(num_cells);
      for (std::size_t cell = 0; cell < num_cells; ++cell)
        now[cell] = {.num_ready = static_cast<std::uint32_t>(random() % 12),
                     .max_batch = 8,
                     .num_in_flight = static_cast<std::uint32_t>(random() % 3),
                     .priority = static_cast<std::uint8_t>(cell)};
      const auto chosen = turns.next(now);
      const bool has_work =
          std::any_of(now.begin(), now.end(), [](const CellLoad& load) { return load.num_ready > 0; });
      REQUIRE(chosen.has_value() == has_work);
      if (!chosen) continue;
      REQUIRE(now[*chosen].num_ready > 0);
      turns.submitted(*chosen, now);
      for (std::size_t cell = 0; cell < num_cells; ++cell) {
        passed_over[cell] = cell == *chosen ? 0 : passed_over[cell] + (now[cell].num_ready > 0 ? 1 : 0);
        // Of several that starve, one has to wait for the others.
        REQUIRE(passed_over[cell] <= CellTurns::kMostPassedOver + 4 * num_cells);
      }
    }
  }
}
