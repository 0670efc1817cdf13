// SPDX-License-Identifier: Apache-2.0
// What a live server and its client add to the cost of batches: found by
// simulating without it what was run live, and comparing.
#pragma once

#include <cstdint>
#include <span>

#include "loadgen/run_result.hpp"
#include "policy/cost_profile.hpp"

namespace troupe::loadgen {

struct CalibrationRun {
  std::uint32_t num_users = 1;  // of the closed loop
  RunResult result;
};

// turnaround and `end` aside, which are kept and taken from the runs' ends:
//   request, per_prompt_token   from times to first token with one user
//   iteration, per sequence     from times per output token, by number of users
// Throws std::runtime_error if no run has one user, or one has no completed
// request of several tokens.
ServingOverheads fit_overheads(const CostProfile& profile, std::span<const CalibrationRun> runs);

}  // namespace troupe::loadgen
