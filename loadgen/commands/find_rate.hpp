// SPDX-License-Identifier: Apache-2.0
// `troupe-loadgen run --find-rate`: live runs at one rate after the other, until the
// highest is known at which the objectives are met.
#pragma once

#include <filesystem>
#include <string>

#include "loadgen/client/run_options.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

struct RateSearchFlags {
  bool is_wanted = false;
  std::string objective;  // as parse_objectives takes it
  double precision = 0.05;
};

// Begins at the workload's rate; each run leaves its results in a directory of its own
// below `out`, if that is not empty. The exit status: kSuccess if some rate was found,
// else kTooManyErrors. Throws std::runtime_error for a closed loop, for objectives that make
// no sense, and what run_live() throws.
int find_rate(const RateSearchFlags& flags, RunOptions options, WorkloadSettings workload,
              const std::filesystem::path& out);

}  // namespace troupe::loadgen
