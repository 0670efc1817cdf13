// SPDX-License-Identifier: Apache-2.0
// A bounded queue in front of one exporter, and the thread that empties it.
// Recording only pushes a pointer: a collector that is slow or gone costs
// spans, never time. Each exporter has a pipeline of its own, so that a dead
// collector does not hold up the file.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "telemetry/metrics/metrics.hpp"
#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

struct SpanPipelineOptions {
  std::size_t max_queued_spans = 8192;
  std::size_t max_queued_bytes = 16 << 20;  // of captured prompts, above all
  std::size_t max_batch_spans = 512;        // at most so many a call, unless one tree has more
  std::size_t max_batch_bytes = 2 << 20;    // likewise
  std::chrono::milliseconds flush_interval{500};
};

// spans_exported + spans_dropped_* == spans offered, once stopped.
struct SpanCounters {
  Counter exported, dropped_queue_full, dropped_export_failed, dropped_shutdown;
};

class SpanPipeline {
 public:
  SpanPipeline(std::unique_ptr<SpanExporter> exporter, SpanPipelineOptions options, SpanCounters counters);
  ~SpanPipeline();  // stops at once

  // Any thread; never waits for the exporter.
  void offer(SpanTree tree);
  // From now on spans that are offered are dropped; those that are queued are sent until the deadline.
  void begin_stop(std::chrono::steady_clock::time_point deadline);
  // The same, then drops and counts the rest and ends the thread. One thread; once.
  void stop(std::chrono::steady_clock::time_point deadline);

 private:
  struct QueuedTree {
    SpanTree spans;
    std::size_t num_bytes;
  };

  void run();
  // Empty when stopped and nothing is left.
  std::vector<SpanTree> take_batch();
  void drop_rest();
  bool has_full_batch() const;  // under the mutex

  const std::unique_ptr<SpanExporter> exporter_;
  const SpanPipelineOptions options_;
  const SpanCounters counters_;
  ExportDeadline deadline_;

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<QueuedTree> queue_;
  std::size_t num_queued_spans_ = 0;
  std::size_t num_queued_bytes_ = 0;
  bool is_stopping_ = false;

  std::thread thread_;
};

}  // namespace troupe
