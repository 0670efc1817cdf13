// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen simulate`: a run on simulated workers, or with --find-workers
// the fewest workers that keep an objective at given rates. kTooManyErrors if
// no number of workers does.
int simulate_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
