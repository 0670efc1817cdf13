// SPDX-License-Identifier: Apache-2.0
// Iterations as a server ran them, from its trace file: samples for a cost that holds
// where it is used. A grid measured on a device of its own does not see what serving
// does to it: caches that other threads use, cores that are taken away, stalls.
#pragma once

#include <vector>

#include "app/trace/trace_file.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe {

// Fewer iterations say little of a cost.
inline constexpr std::size_t kFewestIterations = 200;
// More are thinned out evenly.
inline constexpr std::size_t kMostIterations = 20'000;

// Time is the device's own (network_seconds). Batches whose worker died, and those without
// slices, are left out. Throws std::runtime_error: fewer than kFewestIterations, or spans
// without a batch's shape, as older servers wrote them.
std::vector<CostSample> served_iterations(const TraceFile& trace);

}  // namespace troupe
