// SPDX-License-Identifier: Apache-2.0
// Summary of a run, in a few lines for the terminal.
#pragma once

#include <string>

#include "app/trace/traced_request.hpp"

namespace troupe {

// How many requests and how they ended, where their time went on average and at
// the slowest, how full the batches were.
std::string summarize_run(const TracedRun& run);

}  // namespace troupe
