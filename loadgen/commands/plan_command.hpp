// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen plan`: shows what a workload is going to send, and saves it
// as a plan file that can be sent again exactly. Needs no server.
int plan_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
