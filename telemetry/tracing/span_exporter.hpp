// SPDX-License-Identifier: Apache-2.0
// Where completed spans go: a file, a collector. Called by one thread, which
// may wait on it; what it can't deliver is counted, never kept.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "telemetry/tracing/span.hpp"

namespace troupe {

// Spans recorded together: a whole request, or one iteration.
using SpanTree = std::shared_ptr<const std::vector<Span>>;

std::size_t count_spans(const std::vector<SpanTree>& trees);
// In memory, nearly.
std::size_t count_bytes(const std::vector<Span>& spans);

// Until when an exporter may try; moved nearer when the server ends. Any thread.
class ExportDeadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  void set(TimePoint time) { time_ = time; }
  TimePoint get() const { return time_; }

 private:
  std::atomic<TimePoint> time_ = TimePoint::max();
};

class SpanExporter {
 public:
  virtual ~SpanExporter() = default;
  // How many of the spans arrived; the others are given up. Says in the log why,
  // not more often than is bearable. Does not throw.
  virtual std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) = 0;
};

}  // namespace troupe
