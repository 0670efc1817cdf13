// SPDX-License-Identifier: Apache-2.0
// The spans of a trace file as what they stand for: requests with their phases,
// and iterations of workers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/trace/trace_file.hpp"

namespace troupe {

struct TracedRequest {
  const TraceSpan* root = nullptr;
  std::vector<const TraceSpan*> phases;  // in order of their begin
};

// Points into the file, which must live on.
struct TracedRun {
  std::vector<TracedRequest> requests;       // in order of their begin
  std::vector<const TraceSpan*> iterations;  // in order of their begin
  std::size_t num_others = 0;                // spans that are neither
};

TracedRun group_spans(const TraceFile& file);

}  // namespace troupe
