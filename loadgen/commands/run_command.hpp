// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen run`: one run against a live server. kTooManyErrors if more
// requests failed than allowed, kServerUnreachable if the server is not there
// or went away.
int run_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
