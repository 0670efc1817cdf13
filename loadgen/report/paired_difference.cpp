// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/paired_difference.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace troupe::loadgen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Student's t, two-sided 95 %, by degrees of freedom from 1.
constexpr std::array kStudent95 = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                   2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                   2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
// Beyond the table: the normal's, and how fast Student's falls to it.
constexpr double kNormal95 = 1.96, kExcess95 = 2.4;

double half_width(double sum_of_squares, std::size_t count) {
  const std::size_t freedom = count - 1;
  const double t = freedom <= kStudent95.size() ? kStudent95[freedom - 1]
                                                : kNormal95 + kExcess95 / static_cast<double>(freedom);
  return t * std::sqrt(sum_of_squares / static_cast<double>(freedom) / static_cast<double>(count));
}

}  // namespace

PairedDifference paired_difference(std::span<const std::pair<double, double>> pairs) {
  PairedDifference difference{.low = -kInfinity, .high = kInfinity, .count = pairs.size()};
  if (pairs.empty()) return difference;
  const auto count = static_cast<double>(pairs.size());
  for (const auto& [base, other] : pairs) {
    difference.base += base / count;
    difference.other += other / count;
    difference.num_endless_base += std::isfinite(base) ? 0 : 1;
    difference.num_endless_other += std::isfinite(other) ? 0 : 1;
  }
  if (pairs.size() < 2) return difference;
  if (!difference.is_finite()) {
    if (difference.num_endless_other == pairs.size() && difference.num_endless_base == 0)
      difference.low = kInfinity;
    if (difference.num_endless_base == pairs.size() && difference.num_endless_other == 0)
      difference.high = -kInfinity;
    return difference;
  }
  const double mean = difference.other - difference.base;
  double sum_of_squares = 0;
  for (const auto& [base, other] : pairs) sum_of_squares += (other - base - mean) * (other - base - mean);
  const double half = half_width(sum_of_squares, pairs.size());
  difference.low = mean - half;
  difference.high = mean + half;
  return difference;
}

}  // namespace troupe::loadgen
