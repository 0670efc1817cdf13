// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen calibrate`: the highest load at which this generator is still
// honest on this machine (calibration.hpp).
int calibrate_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
