// SPDX-License-Identifier: Apache-2.0
// The parts of a report, each as HTML; empty where there is nothing to say.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/report.hpp"

namespace troupe::loadgen {

// Doubts about the figures first: simulated, dishonest rates, errors.
std::string warnings_section(std::span<const StoredRun> runs, const std::vector<std::string>& notes);
// The large figures of a lone run.
std::string headline_section(const Summary& summary);
std::string settings_section(const RunGroups& groups);
// A line for each server and load, and each class where there are several.
std::string overview_section(const RunGroups& groups);
// Each line against the first, at loads that both have.
std::string comparison_section(const RunGroups& groups);
// Figures over the offered load.
std::string curves_section(const RunGroups& groups);
// Distributions and time lines, a part for each load.
std::string details_section(const RunGroups& groups);
// All percentiles of one run.
std::string run_table(const StoredRun& run);

inline constexpr std::size_t kMaxListed = 6;  // values, runs or errors before "…"
// "a, b, c, …"
std::string listed(const std::vector<std::string>& texts);
// "4 requests/s", "16 users".
std::string load_text(const RunGroups& groups, double load);

}  // namespace troupe::loadgen
