// SPDX-License-Identifier: Apache-2.0
// Plays a workload against simulated workers in virtual time: discrete events,
// nothing drawn but by the seeds, so equal inputs give equal results. Its
// output is that of a live run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "loadgen/result/run_result.hpp"
#include "loadgen/simulator/simulated_server.hpp"
#include "loadgen/workload/planned_conversation.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/placing/dispatch.hpp"

namespace troupe::loadgen {

// Workers of one kind: so many, each as the profile says.
struct WorkerKind {
  CostProfile profile;
  std::uint32_t count = 1;
};

// Workers that die, each by itself, after exponential times.
struct LossSettings {
  std::chrono::nanoseconds mean_time{0};     // between two losses of a worker, its restart aside; 0: none
  std::chrono::nanoseconds restart_time{0};  // until it is back, empty
};

struct SimulationSettings {
  std::uint32_t num_workers = 1;  // where there is one kind
  // Each worker is a server of its own behind a front, whose policy this is; none: all are
  // workers of one server, which sends a request to the one that has most of its beginning
  // (policy/placing/placing.hpp).
  std::optional<DispatchKind> dispatch = DispatchKind::kShortestQueue;
  std::uint64_t seed = 1;  // of the dispatch policy, of residuals and of losses
  // Closed loop: so many conversations at a time, each begun as another ends,
  // after the pause that its first turn asks for.
  // 0: open loop, conversations begin when the plan says.
  std::uint32_t num_users = 0;
  // Nothing is sent at or after this; 0: all that is planned.
  std::chrono::nanoseconds duration{0};
  LossSettings losses = {};
  // Four bytes for each token. Without them only the first token of requests that were not
  // completed is counted.
  bool records_gaps = true;
  // Set: devices hand out states that tell lengths of answers, so strongly (simulated_states.hpp).
  std::optional<double> state_strength = {};
  // So, too, an encoder's vectors of the prompts that wait.
  std::optional<double> encoder_strength = {};
  std::chrono::nanoseconds sample_interval{std::chrono::seconds(1)};  // 0: no samples
};

struct Simulation {
  RunResult result;  // without name, settings, offered rate and measured window
  ServerTotals totals;
  std::vector<LengthPredictor> predictors;  // of servers that foresee lengths, as they were at the end
  std::uint64_t num_events = 0;
};

// Checks at the end that nothing was lost: each request has ended once, and every page is
// free or cached. Throws std::runtime_error if that is not so, a profile has a problem, the
// kinds can't be workers of one server, a client of the plan stops reading, a class is
// unknown, there is no worker, a strength is none from 0 to 1, users of a closed loop begin again and
// again in no time, or there is work after 285 years. Any thread; the source is used by this call alone.
Simulation simulate(std::span<const WorkerKind> kinds, ConversationSource& source,
                    std::vector<RequestClass> classes, const SimulationSettings& settings);
// settings.num_workers of one kind.
Simulation simulate(const CostProfile& profile, ConversationSource& source, std::vector<RequestClass> classes,
                    const SimulationSettings& settings);

}  // namespace troupe::loadgen
