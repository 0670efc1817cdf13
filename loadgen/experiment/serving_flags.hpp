// SPDX-License-Identifier: Apache-2.0
// What a server's command line means to the simulator.
#pragma once

#include <string>
#include <vector>

#include "policy/cost_profile.hpp"

namespace troupe::loadgen {

// Takes over the flags of `troupe serve` that steer batching, queueing and the
// prefix cache, written "--flag value" or "--flag=value"; all others leave the
// settings as they were profiled. Throws std::runtime_error: a value that is
// none.
void apply_serving_flags(const std::vector<std::string>& argv, ServingSettings& serving);

}  // namespace troupe::loadgen
