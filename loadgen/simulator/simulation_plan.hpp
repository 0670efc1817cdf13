// SPDX-License-Identifier: Apache-2.0
// A simulated run from its parts: profile, workload, workers, seed. Fills what
// a live run fills, so that tables and reports need not know the difference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

struct SimulationPlan {
  std::vector<WorkerKind> kinds;  // at least one
  std::string profile_file;       // as shown to people
  WorkloadSettings workload;
  std::filesystem::path replayed;  // a live run's directory, in place of the workload; may be empty
  std::optional<DispatchKind> dispatch = DispatchKind::kShortestQueue;  // as SimulationSettings
  LossSettings losses = {};
  std::uint64_t seed = 1;
  double warmup_s = 0;
  double cooldown_s = 0;
  bool records_gaps = true;
  bool samples = true;
  std::optional<double> state_strength = {}, encoder_strength = {};  // as SimulationSettings
  std::string name;                                                  // empty: made of workload, rate and seed

  std::uint32_t num_workers() const;
};

// The dispatch of a server that places requests itself: SimulationPlan::dispatch is none.
inline constexpr std::string_view kAffinity = "affinity";

// Throws what simulate(), make_source() and read_result() throw.
Simulation run_simulation(const SimulationPlan& plan);

}  // namespace troupe::loadgen
