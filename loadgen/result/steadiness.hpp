// SPDX-License-Identifier: Apache-2.0
// Was the warm-up long enough? Judged by what was measured behind it: in a run that is
// steady, requests of the window's first quarter take as long as the rest.
#pragma once

#include <string>

#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

// A warning where first and rest differ by more than a tenth and by more than chance gives
// once in a thousand runs; empty: steady, or too few requests to tell. End-to-end times of
// completed requests, by the logarithm, over their output tokens where there are any.
std::string unsteadiness(const RunResult& result);

}  // namespace troupe::loadgen
