// SPDX-License-Identifier: Apache-2.0
// One line a run, for spreadsheets and plot scripts (RFC 4180, times in
// milliseconds).
#pragma once

#include <string>

#include "loadgen/result/run_result.hpp"
#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

std::string summary_csv_header();
std::string summary_csv_line(const RunResult& result, const Summary& summary);

}  // namespace troupe::loadgen
