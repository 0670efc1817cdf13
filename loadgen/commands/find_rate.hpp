// SPDX-License-Identifier: Apache-2.0
// `troupe-loadgen run --find-rate`: live runs at one rate after the other, until the
// highest is known at which the objectives are met.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "loadgen/client/rate_search.hpp"
#include "loadgen/client/run_options.hpp"
#include "loadgen/simulator/capacity_search.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

struct RateSearchFlags {
  bool is_wanted = false;
  std::string objective;  // as parse_objectives takes it
  double precision = 0.05;
};

// One run's answer. Missed: an objective is above its limit, or requests were not completed
// and the objective's figure does not have them in it (means, ITL, percentiles of completed
// requests). kNotMeasured: no request, or all completed without one that has the latency.
// kGeneratorLate: so it was, unless all objectives are TTFT or end to end and met, which
// a late generator makes longer, never shorter.
std::variant<RateTrial, Unjudged> judge_rate(double rate, const std::vector<PercentileObjective>& objectives,
                                             const RunResult& result, const Summary& summary);

// Begins at the workload's rate; the n-th run, from 0, has the seed of the options + n, since
// what a server has cached of the run before would make it faster. Each leaves its results in a
// directory of its own below `out`, if that is not empty. The exit status: kSuccess if
// the highest rate was found as near as asked, kServerUnreachable if the server went away,
// else kTooManyErrors. Throws std::runtime_error for a closed loop, for objectives that make
// no sense, and what run_live() throws in the first run.
int find_rate(const RateSearchFlags& flags, RunOptions options, WorkloadSettings workload,
              const std::filesystem::path& out);

}  // namespace troupe::loadgen
