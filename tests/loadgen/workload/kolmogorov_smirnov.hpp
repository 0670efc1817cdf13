// SPDX-License-Identifier: Apache-2.0
// Kolmogorov's and Smirnov's test: do samples come from a distribution?
#pragma once

#include <functional>
#include <vector>

namespace troupe::loadgen::test {

// The largest distance between the samples' distribution function and `cdf`,
// times the square root of their number.
double ks_statistic(std::vector<double> samples, const std::function<double(double)>& cdf);

// Samples of the distribution pass 99 times of 100, and so, with a fixed seed,
// for ever or never. For continuous distributions.
bool passes_ks(std::vector<double> samples, const std::function<double(double)>& cdf);

}  // namespace troupe::loadgen::test
