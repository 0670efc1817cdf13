// SPDX-License-Identifier: Apache-2.0
// Traces of one process: draws ids, decides what is sampled, turns steady time
// into wall time, and hands completed spans to the exporters. Their owner
// keeps spans until all is known and records them at once; so what to keep is
// decided at the end, when errors and slowness are known.
//
// Wall time is the steady clock plus one offset taken at the start: spans never
// run backwards, and a clock that is set while we run does not tear them apart.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "telemetry/tracing/genai_environment.hpp"
#include "telemetry/tracing/recent_spans.hpp"
#include "telemetry/tracing/span_pipeline.hpp"

namespace troupe {

struct TracerOptions {
  double sample_ratio = 1.0;  // of traces that are not decided about yet
  // Requests that took longer are kept, sampled or not; 0: none.
  std::chrono::nanoseconds keep_slower_than{0};
  // Spans of iterations; a batch beyond leaves none.
  std::uint32_t max_iterations_per_second = 250;
  // Beside today's names of OpenTelemetry's GenAI conventions those that they replaced.
  bool writes_old_names = true;
  // Prompts and answers in the spans of requests; else they are nowhere in them.
  ContentCapture capture = {};
  // Requests with spans that stay in memory, sampled or not, without contents; 0: none.
  std::size_t max_recent_requests = 0;
  SpanPipelineOptions pipeline = {};
};

// Where spans go. Iterations leave hundreds a second, however little is asked: a file
// takes them, a dashboard only where they are wanted.
struct TraceDestination {
  std::unique_ptr<SpanExporter> exporter;
  bool takes_iterations = true;
};

// Any thread.
class Tracer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Tracer(TracerOptions options, Metrics& metrics, std::vector<TraceDestination> destinations);
  ~Tracer();  // stop(), with two seconds
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // For a trace that begins here. Never where spans have no destination.
  bool samples(const TraceId& trace) const {
    return !pipelines_.empty() && is_in_ratio(trace, sample_ratio_);
  }
  bool is_slow(std::chrono::nanoseconds time) const {
    const std::chrono::nanoseconds keep_slower_than{keep_slower_than_ns_};
    return keep_slower_than.count() > 0 && time > keep_slower_than;
  }
  // In place of TracerOptions' from now on; what is decided stays.
  void keep(double sample_ratio, std::chrono::nanoseconds keep_slower_than);
  bool writes_old_names() const { return options_.writes_old_names; }
  ContentCapture content_capture() const { return options_.capture; }
  // 0 where no destination takes them.
  std::uint32_t max_iterations_per_second() const;
  TraceContext next_root();
  std::int64_t unix_nanoseconds(TimePoint time) const;

  // Never blocks. Spans that the queues can't take are dropped and counted.
  void record(std::vector<Span> spans);
  // The same for a tenant's request, which is among the recent ones then. is_exported: it goes to the
  // destinations too.
  void record_request(const std::string& tenant, std::vector<Span> spans, bool is_exported);
  void record_iteration(Span span);

  const RecentSpans& recent() const { return recent_; }

  // Sends what is queued for so long at most. One thread; once.
  void stop(std::chrono::milliseconds deadline);

 private:
  void offer(const SpanTree& tree);

  struct Pipeline {
    std::unique_ptr<SpanPipeline> spans;
    bool takes_iterations = true;
  };

  const TracerOptions options_;
  std::atomic<double> sample_ratio_;
  std::atomic<std::int64_t> keep_slower_than_ns_;
  const std::int64_t offset_nanoseconds_;
  std::vector<Pipeline> pipelines_;
  RecentSpans recent_;
};

}  // namespace troupe
