// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen profile`: completes a profile of `troupe profile` with what a
// live server and this client add to it.
int profile_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
