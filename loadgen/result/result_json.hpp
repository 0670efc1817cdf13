// SPDX-License-Identifier: Apache-2.0
// results.json as text: everything of a run but its requests.
#pragma once

#include <string>
#include <string_view>

#include "loadgen/result/run_result.hpp"
#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

std::string results_json(const RunResult& result, const Summary& summary);

// Without records. `file` is for the texts of errors (std::runtime_error).
RunResult parse_results_json(std::string_view text, const std::string& file);

}  // namespace troupe::loadgen
