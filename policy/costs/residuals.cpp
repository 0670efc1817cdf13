// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/residuals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe {
namespace {

constexpr std::size_t kNumQuantiles = 201;  // the last hundredth has three

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
  std::vector<double> quantiles;
  for (std::size_t i = 0; i < kNumQuantiles; ++i)
    quantiles.push_back(residual_at(ratios, static_cast<double>(i) / (kNumQuantiles - 1)));
  // Of what is drawn: straight lines between the quantiles.
  double area = 0;
  for (std::size_t i = 1; i < quantiles.size(); ++i) area += (quantiles[i - 1] + quantiles[i]) / 2;
  const double mean = area / static_cast<double>(quantiles.size() - 1);
  for (double& quantile : quantiles) quantile /= mean;
  return quantiles;
}

double residual_at(std::span<const double> residuals, double rank) {
  if (residuals.empty()) return 1;
  if (residuals.size() == 1) return residuals.front();
  const double place = std::clamp(rank, 0.0, 1.0) * static_cast<double>(residuals.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), residuals.size() - 2);
  return std::lerp(residuals[below], residuals[below + 1], place - static_cast<double>(below));
}

}  // namespace troupe
