// SPDX-License-Identifier: Apache-2.0
// The span of one batch. A batch serves many requests, so its span is a root of
// its own, with a link to each request in it that is sampled; a batch without
// such a request leaves none.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/command.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

// Gathered while the batch is formed.
class IterationLinks {
 public:
  // request: not valid if it is not sampled.
  void add(const TraceContext& request);

  bool empty() const { return links_.empty(); }
  const std::vector<TraceContext>& links() const { return links_; }
  std::uint32_t num_dropped() const { return num_dropped_; }

 private:
  std::vector<TraceContext> links_;  // bounded
  std::uint32_t num_dropped_ = 0;
};

void record_iteration(Tracer& tracer, const IterationLinks& links, const IterationReport& report);

}  // namespace troupe
