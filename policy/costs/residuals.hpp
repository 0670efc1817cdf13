// SPDX-License-Identifier: Apache-2.0
// Times that a cost fitted to them does not explain: stalls, caches that others used,
// frequency. A simulation that leaves them out has tails that are too short, and means
// that are too small where the fit went by medians.
#pragma once

#include <span>
#include <vector>

#include "policy/costs/cost_profile.hpp"

namespace troupe {

// Scales the cost so that it gives the samples' time in total, and returns measured over
// fitted time of each, ascending, divided by their mean. Each sample is one iteration and
// keeps its weight: one stall in 20,000 is drawn once in 20,000. Fewer than
// kFewestResiduals: empty, and the cost stays as it is.
std::vector<double> split_off_residuals(IterationCost& cost, std::span<const CostSample> samples);

inline constexpr std::size_t kFewestResiduals = 100;

// residuals: ascending, each as likely as another. The one at this rank, from 0 to 1; 1
// where there are none.
double residual_at(std::span<const double> residuals, double rank);

}  // namespace troupe
