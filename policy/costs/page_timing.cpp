// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/page_timing.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

namespace troupe {
namespace {

// A page adds this share of a batch of its own at least: less is an error of
// measurement, and a cost must be above 0.
constexpr double kLeastShare = 1.0 / 64;

constexpr double kInProportionWithin = 2.0;
constexpr double kFlatShare = 0.1;  // attention below this share of a page is noise

// On the line between the nearest that were measured.
double attention_at(const PageTimes& times, std::uint32_t depth) {
  const auto above = times.by_depth.lower_bound(depth);
  assert(above != times.by_depth.end());
  double low_depth = 0, low_time = times.first;
  if (above != times.by_depth.begin()) {
    const auto below = std::prev(above);
    low_depth = below->first;
    low_time = below->second;
  }
  const double share = (depth - low_depth) / (above->first - low_depth);
  return low_time + share * (above->second - low_time) - times.first;
}

}  // namespace

bool is_in_proportion(const PageTimes& times) {
  if (times.by_depth.size() < 2) return true;
  const auto& [deepest, longest] = *times.by_depth.rbegin();
  const auto& [depth, time] = *std::next(times.by_depth.rbegin());
  const double expected = std::max(time - times.first, 0.0) * deepest / depth;
  return longest - times.first <= kInProportionWithin * std::max(expected, kFlatShare * times.first);
}

RecomputeCost recompute_cost_of(const PageTimes& times, std::uint32_t deepest) {
  RecomputeCost cost{.constant = 0, .attention = {}};
  double most = 0;
  for (std::uint64_t depth = 1; deepest > 0; depth *= 2) {
    // Beyond the last power of two costs go on in proportion, so the last value
    // is such that the deepest page's is as measured.
    const bool is_last = depth * 2 > deepest;
    const double of_page = is_last ? attention_at(times, deepest) * static_cast<double>(depth) / deepest
                                   : attention_at(times, static_cast<std::uint32_t>(depth));
    cost.attention.push_back(most = std::max(most, of_page));
    if (is_last) break;
  }
  cost.constant = times.first;
  if (times.chunk_pages < 2) return cost;
  double added = times.chunk - times.first;
  const RecomputeCost attention_only{.constant = 0, .attention = cost.attention};
  for (std::uint32_t depth = 1; depth < times.chunk_pages; ++depth) added -= attention_only.of_page(depth);
  cost.constant = std::clamp(added / (times.chunk_pages - 1), times.first * kLeastShare, times.first);
  return cost;
}

LoadCost load_cost_of(double of_one, double of_all, std::uint32_t num_pages) {
  if (num_pages < 2) return {.fixed = 0, .per_page = of_one};
  if (of_all <= of_one) return {.fixed = 0, .per_page = of_all / num_pages};
  const double per_page = std::min((of_all - of_one) / (num_pages - 1), of_all / num_pages);
  return {.fixed = std::max(0.0, of_one - per_page), .per_page = per_page};
}

double dearest_over_cheapest(const RecomputeCost& cost, std::uint32_t deepest) {
  return cost.of_page(deepest) / cost.of_page(0);
}

RecomputeCost flattened(const RecomputeCost& cost, std::uint32_t deepest) {
  return {.constant = cost.of_page(deepest / 2), .attention = {}};
}

}  // namespace troupe
