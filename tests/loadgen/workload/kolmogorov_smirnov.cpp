// SPDX-License-Identifier: Apache-2.0
#include "tests/loadgen/workload/kolmogorov_smirnov.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::loadgen::test {

double ks_statistic(std::vector<double> samples, const std::function<double(double)>& cdf) {
  std::sort(samples.begin(), samples.end());
  const auto count = static_cast<double>(samples.size());
  double distance = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double expected = cdf(samples[i]);
    distance = std::max(
        {distance, expected - static_cast<double>(i) / count, static_cast<double>(i + 1) / count - expected});
  }
  return distance * std::sqrt(count);
}

bool passes_ks(std::vector<double> samples, const std::function<double(double)>& cdf) {
  constexpr double kCritical = 1.628;  // of Kolmogorov's distribution at 1 %
  return ks_statistic(std::move(samples), cdf) < kCritical;
}

}  // namespace troupe::loadgen::test
