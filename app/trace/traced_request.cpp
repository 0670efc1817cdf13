// SPDX-License-Identifier: Apache-2.0
#include "app/trace/traced_request.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "telemetry/tracing/semantic_conventions.hpp"
#include "telemetry/tracing/span.hpp"

namespace troupe {

TracedRun group_spans(const TraceFile& file) {
  TracedRun run;
  std::map<std::pair<std::string, std::string>, std::size_t> by_root;  // trace and span id
  for (const TraceSpan& span : file.spans) {
    if (span.name == semconv::kIteration) {
      run.iterations.push_back(&span);
    } else if (span.kind == static_cast<int>(SpanKind::kServer)) {
      by_root.emplace(std::pair(span.trace_id, span.span_id), run.requests.size());
      run.requests.push_back({.root = &span, .phases = {}});
    }
  }
  std::size_t num_phases = 0;
  for (const TraceSpan& span : file.spans) {
    if (span.name == semconv::kIteration || span.kind == static_cast<int>(SpanKind::kServer)) continue;
    const auto root = by_root.find({span.trace_id, span.parent_id});
    if (root == by_root.end()) continue;
    run.requests[root->second].phases.push_back(&span);
    num_phases += 1;
  }
  const auto is_earlier = [](const TraceSpan* a, const TraceSpan* b) { return a->start < b->start; };
  for (auto& request : run.requests)
    std::stable_sort(request.phases.begin(), request.phases.end(), is_earlier);
  std::stable_sort(run.iterations.begin(), run.iterations.end(), is_earlier);
  std::stable_sort(run.requests.begin(), run.requests.end(),
                   [](const auto& a, const auto& b) { return a.root->start < b.root->start; });
  run.num_others = file.spans.size() - num_phases - run.requests.size() - run.iterations.size();
  return run;
}

}  // namespace troupe
