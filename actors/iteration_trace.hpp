// SPDX-License-Identifier: Apache-2.0
// The span of one batch. A batch serves many requests, so its span is a root of
// its own, with a link to each request in it that is sampled; a batch without
// such a request leaves none.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/messages.hpp"
#include "telemetry/tracer.hpp"

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

struct IterationFacts {
  std::uint64_t batch_id = 0;
  Epoch epoch = 0;
  std::chrono::steady_clock::time_point begun, ended;  // on the device
  std::int64_t network_nanoseconds = 0;
  std::uint32_t num_tokens = 0, num_sequences = 0, num_decodes = 0;
  std::uint32_t num_running = 0, num_waiting = 0;  // requests, when it ended
  bool is_lost = false;                            // its worker died
};

void record_iteration(Tracer& tracer, const IterationLinks& links, const IterationFacts& facts);

}  // namespace troupe
