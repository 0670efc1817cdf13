// SPDX-License-Identifier: Apache-2.0
// A simulated run from its parts: profile, workload, workers, seed. Fills what
// a live run fills, so that tables and reports need not know the difference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

struct SimulationPlan {
  CostProfile profile;
  std::string profile_file;  // as shown to people
  WorkloadSettings workload;
  std::filesystem::path replayed;  // a live run's directory, in place of the workload; may be empty
  std::uint32_t num_workers = 1;
  DispatchKind dispatch = DispatchKind::kShortestQueue;
  std::uint64_t seed = 1;
  double warmup_s = 0;
  double cooldown_s = 0;
  bool records_gaps = true;
  bool samples = true;
  std::string name;  // empty: made of workload, rate and seed
};

// Throws what simulate(), make_source() and read_result() throw.
Simulation run_simulation(const SimulationPlan& plan);

}  // namespace troupe::loadgen
