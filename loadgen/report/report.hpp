// SPDX-License-Identifier: Apache-2.0
// One self-contained HTML page of one or many runs: figures, curves over the
// load, distributions, time lines, and a comparison of server configurations.
// It loads nothing, runs nothing, follows the reader's light or dark mode, and
// prints every text it was given escaped.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "loadgen/report/stored_run.hpp"

namespace troupe::loadgen {

struct ReportText {
  std::string title;
  std::string description;         // may be empty, as may the following
  std::string paper;               // figure or claim that this stands for
  std::string expected;            // the result that should come out
  std::vector<std::string> notes;  // further doubts, before those of the runs
};

std::string report_html(std::span<const StoredRun> runs, const ReportText& text);

}  // namespace troupe::loadgen
