// SPDX-License-Identifier: Apache-2.0
// Iterations as a server ran them, from its trace file: samples for a cost that holds
// where it is used. A grid measured on a device of its own does not see what serving
// does to it: caches that other threads use, cores that are taken away, stalls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "app/trace/trace_file.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe {

// Fewer iterations say little of a cost.
inline constexpr std::size_t kFewestIterations = 200;
// More are thinned out evenly.
inline constexpr std::size_t kMostIterations = 20'000;

// The largest batch has at least this many times the tokens of the smallest.
inline constexpr std::uint32_t kFewestTokensRatio = 4;

// Time is the device's own (network_seconds). Batches whose worker died, those without
// slices, those of encoders and those that took copies with them are left out. Throws
// std::runtime_error: fewer than kFewestIterations; more than one server, model or worker; no
// decodes or no prompts, or all of about one size; spans without a batch's shape, as older
// servers wrote them.
std::vector<CostSample> served_iterations(const TraceFile& trace);

// samples: not empty.
struct BatchSizes {
  std::uint32_t fewest = 0, most = 0;  // tokens
};
BatchSizes batch_sizes(const std::vector<CostSample>& samples);

}  // namespace troupe
