// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/residuals.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

void scale(IterationCost& cost, double factor) {
  for (double* part :
       {&cost.fixed, &cost.per_sequence, &cost.per_output_row, &cost.per_decode_key, &cost.per_prefill_pair})
    *part *= factor;
  for (double& slope : cost.slopes) slope *= factor;
}

}  // namespace

std::vector<double> split_off_residuals(IterationCost& cost, std::span<const CostSample> samples) {
  if (samples.size() < kFewestResiduals) return {};
  double measured = 0, fitted = 0;
  std::vector<double> ratios;
  for (const CostSample& sample : samples) {
    const double expected = std::max(1.0, static_cast<double>(cost(sample.shape).count()));
    measured += sample.nanoseconds;
    fitted += expected;
    ratios.push_back(sample.nanoseconds / expected);
  }
  scale(cost, measured / fitted);
  std::sort(ratios.begin(), ratios.end());
  const double mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
  for (double& ratio : ratios) ratio /= mean;
  return ratios;
}

double residual_at(std::span<const double> residuals, double rank) {
  if (residuals.empty()) return 1;
  const double place = std::clamp(rank, 0.0, 1.0) * static_cast<double>(residuals.size());
  return residuals[std::min(static_cast<std::size_t>(place), residuals.size() - 1)];
}

}  // namespace troupe
