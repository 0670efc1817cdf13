// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/tracer.hpp"

#include <algorithm>
#include <utility>

#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

// What is left when the server ends is given this long.
constexpr std::chrono::seconds kFarewell{2};
// Room for a recent one: five times the usual.
constexpr std::size_t kBytesARequest = 16 << 10;

template <class Clock>
std::int64_t nanoseconds_of(typename Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::int64_t offset_to_wall_time() {
  using std::chrono::steady_clock;
  using std::chrono::system_clock;
  return nanoseconds_of<system_clock>(system_clock::now()) -
         nanoseconds_of<steady_clock>(steady_clock::now());
}

// Texts, and the id of a response, by which its texts are had.
bool leads_to_texts(const SpanAttribute& attribute) {
  return attribute.key == semconv::kInputMessages || attribute.key == semconv::kOutputMessages ||
         attribute.key == semconv::kResponseId;
}

SpanTree without_texts(const SpanTree& tree) {
  auto spans = *tree;
  for (Span& span : spans) {
    std::erase_if(span.attributes, leads_to_texts);
    for (SpanEvent& event : span.events) std::erase_if(event.attributes, leads_to_texts);
  }
  return std::make_shared<const std::vector<Span>>(std::move(spans));
}

}  // namespace

Tracer::Tracer(TracerOptions options, Metrics& metrics, std::vector<TraceDestination> destinations)
    : options_(options),
      sample_ratio_(options.sample_ratio),
      keep_slower_than_ns_(options.keep_slower_than.count()),
      offset_nanoseconds_(offset_to_wall_time()),
      recent_(options.max_recent_requests, options.max_recent_requests * kBytesARequest) {
  const SpanCounters counters{.exported = metrics.trace_spans_exported,
                              .dropped_queue_full = metrics.trace_spans_dropped_queue_full,
                              .dropped_export_failed = metrics.trace_spans_dropped_export_failed,
                              .dropped_shutdown = metrics.trace_spans_dropped_shutdown};
  for (auto& destination : destinations)
    pipelines_.push_back({.spans = std::make_unique<SpanPipeline>(std::move(destination.exporter),
                                                                  options_.pipeline, counters),
                          .takes_iterations = destination.takes_iterations});
}

Tracer::~Tracer() { stop(kFarewell); }

void Tracer::keep(double sample_ratio, std::chrono::nanoseconds keep_slower_than) {
  sample_ratio_ = sample_ratio;
  keep_slower_than_ns_ = keep_slower_than.count();
}

std::uint32_t Tracer::max_iterations_per_second() const {
  const bool is_taken = std::any_of(pipelines_.begin(), pipelines_.end(),
                                    [](const Pipeline& pipeline) { return pipeline.takes_iterations; });
  return is_taken ? options_.max_iterations_per_second : 0;
}

TraceContext Tracer::next_root() {
  const TraceId trace = draw_trace_id();
  return {.trace = trace, .span = draw_span_id(), .is_sampled = samples(trace)};
}

std::int64_t Tracer::unix_nanoseconds(TimePoint time) const {
  return nanoseconds_of<std::chrono::steady_clock>(time) + offset_nanoseconds_;
}

void Tracer::record(std::vector<Span> spans) {
  if (spans.empty() || pipelines_.empty()) return;
  offer(std::make_shared<const std::vector<Span>>(std::move(spans)));
}

void Tracer::record_request(const std::string& tenant, std::vector<Span> spans, bool is_exported) {
  if (spans.empty()) return;
  const auto tree = std::make_shared<const std::vector<Span>>(std::move(spans));
  if (recent_.keeps_any()) recent_.add(tenant, without_texts(tree));
  if (is_exported) offer(tree);
}

void Tracer::offer(const SpanTree& tree) {
  for (const auto& pipeline : pipelines_) pipeline.spans->offer(tree);
}

void Tracer::record_iteration(Span span) {
  const auto tree = std::make_shared<const std::vector<Span>>(1, std::move(span));
  for (const auto& pipeline : pipelines_)
    if (pipeline.takes_iterations) pipeline.spans->offer(tree);
}

void Tracer::stop(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  // All of them first: a collector that hangs leaves the others their time.
  for (const auto& pipeline : pipelines_) pipeline.spans->begin_stop(end);
  for (const auto& pipeline : pipelines_) pipeline.spans->stop(end);
}

}  // namespace troupe
