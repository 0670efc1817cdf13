// SPDX-License-Identifier: Apache-2.0
// A run over time, in bins of equal width: rates from its requests,
// means of what the server said of itself.
#pragma once

#include <vector>

#include "loadgen/report/svg_plot.hpp"
#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

// Points at the middle of each bin; x in seconds from the begin of the run.
struct Timeline {
  double bin_seconds = 0;
  std::vector<PlotPoint> arrivals, completions, failures;  // requests a second
  std::vector<PlotPoint> tokens;                           // output tokens a second
  // Empty where the server said nothing; gaps in between are skipped.
  std::vector<PlotPoint> running, waiting, batch_tokens, pages;
};

Timeline timeline_of(const RunResult& result);

// Inter-token gaps by the time at which they ended.
Heatmap gap_heatmap(const RunResult& result);

}  // namespace troupe::loadgen
