// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen sweep EXPERIMENT.toml`: all runs of an experiment and its
// report. kTooManyErrors if a run failed or was interrupted.
int run_sweep_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
