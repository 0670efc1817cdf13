// SPDX-License-Identifier: Apache-2.0
// From times measured on a device to what KV pages cost. Nanoseconds. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "policy/costs/recompute_cost.hpp"
#include "policy/pages/restore_choice.hpp"

namespace troupe {

// Each of a batch that computes nothing else.
struct PageTimes {
  double first = 0;                          // a page with nothing in front of it
  std::map<std::uint32_t, double> by_depth;  // a page behind so many others, 1 or more
  double chunk = 0;                          // a context's first chunk_pages pages at once
  std::uint32_t chunk_pages = 0;             // 0: not measured
};

// Attention looks at each page in front once, so twice the depth takes about
// twice as long. False if the deepest page takes more than twice what the one
// before it in by_depth lets expect: something else took the time.
bool is_in_proportion(const PageTimes& times);

// Pages are computed again in a batch that is run anyway, so what a batch costs
// however small it is must not count: the constant is what a page adds to a
// longer batch. Attention is what a page takes more than the first, never less
// than that of a page in front of it, at powers of two up to `deepest` and, where
// there was no time to measure, on a straight line between its neighbours.
// by_depth must hold `deepest`, unless that is 0.
RecomputeCost recompute_cost_of(const PageTimes& times, std::uint32_t deepest);

// From the times of loading one page, and of loading num_pages (2 or more, else
// nothing can be told apart) at once.
LoadCost load_cost_of(double of_one, double of_all, std::uint32_t num_pages);

// Cost of a page behind `deepest` others over the first one. Below this they are as
// good as equal: the eviction queue does not tell them apart by much less
// (kLanesPerDoubling), and two measurements of one page differ by as much.
double dearest_over_cheapest(const RecomputeCost& cost, std::uint32_t deepest);
inline constexpr double kFlatBelow = 1.05;

// The same cost for all: that of a page halfway.
RecomputeCost flattened(const RecomputeCost& cost, std::uint32_t deepest);

}  // namespace troupe
