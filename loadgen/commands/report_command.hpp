// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen report DIR... [--out FILE] [--title TEXT]`: one HTML page of
// stored runs or sweeps, overlaid where there are several directories.
int run_report(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
