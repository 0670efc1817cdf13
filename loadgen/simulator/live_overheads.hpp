// SPDX-License-Identifier: Apache-2.0
// Overheads of a live server and its client over the cost of batches: found by
// simulating without it what was run live, and comparing.
#pragma once

#include <cstdint>
#include <span>

#include "loadgen/result/run_result.hpp"
#include "policy/costs/cost_profile.hpp"

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
