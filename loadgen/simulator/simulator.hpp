// SPDX-License-Identifier: Apache-2.0
// Plays a workload against simulated workers in virtual time: discrete events,
// nothing drawn but by the seeds, so equal inputs give equal results. Its
// output is that of a live run.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "loadgen/result/run_result.hpp"
#include "loadgen/simulator/simulated_server.hpp"
#include "loadgen/workload/planned_conversation.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/placing/dispatch.hpp"

namespace troupe::loadgen {

struct SimulationSettings {
  std::uint32_t num_workers = 1;
  DispatchKind dispatch = DispatchKind::kShortestQueue;
  std::uint64_t seed = 1;  // of the dispatch policy and of residuals
  // Closed loop: so many conversations at a time, each begun as another ends,
  // after the pause that its first turn asks for.
  // 0: open loop, conversations begin when the plan says.
  std::uint32_t num_users = 0;
  // Nothing is sent at or after this; 0: all that is planned.
  std::chrono::nanoseconds duration{0};
  bool records_gaps = true;                                           // four bytes for each token
  std::chrono::nanoseconds sample_interval{std::chrono::seconds(1)};  // 0: no samples
};

struct Simulation {
  RunResult result;  // without name, settings, offered rate and measured window
  ServerTotals totals;
  std::uint64_t num_events = 0;
};

// Throws std::runtime_error if the profile has a problem, a class is unknown or
// there is no worker. Any thread; the source is used by this call alone.
Simulation simulate(const CostProfile& profile, ConversationSource& source, std::vector<RequestClass> classes,
                    const SimulationSettings& settings);

}  // namespace troupe::loadgen
