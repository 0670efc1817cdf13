// SPDX-License-Identifier: Apache-2.0
#include "actors/reports/iteration_trace.hpp"

#include <string>
#include <utility>

#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

// More than a batch usually has sequences; OpenTelemetry's own limit.
constexpr std::size_t kMaxLinks = 128;
constexpr std::size_t kUsualLinks = 16;

}  // namespace

void IterationLinks::add(const TraceContext& request) {
  if (!request.is_valid()) return;
  if (links_.size() == kMaxLinks) {
    num_dropped_ += 1;
    return;
  }
  if (links_.empty()) links_.reserve(kUsualLinks);
  links_.push_back(request);
}

void record_iteration(Tracer& tracer, const IterationLinks& links, const IterationReport& report) {
  const auto count = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  Span span;
  span.name = semconv::kIteration;
  span.context = tracer.next_root();
  span.context.is_sampled = true;  // because a request in it is
  span.start_unix_nanoseconds = tracer.unix_nanoseconds(report.begun);
  span.end_unix_nanoseconds = tracer.unix_nanoseconds(report.ended);
  const double network_seconds = static_cast<double>(report.network_nanoseconds) * 1e-9;
  span.attributes = {{semconv::kWorker, count(report.worker)},
                     {semconv::kModelIndex, count(report.model)},
                     {semconv::kEpoch, count(report.epoch)},
                     {semconv::kBatchId, count(report.batch_id)},
                     {semconv::kBatchTokens, count(report.num_tokens)},
                     {semconv::kBatchSequences, count(report.num_sequences)},
                     {semconv::kBatchPrefillTokens, count(report.num_tokens - report.num_decodes)},
                     {semconv::kBatchDecodeSequences, count(report.num_decodes)},
                     {semconv::kNetworkSeconds, network_seconds},
                     {semconv::kNumRunning, count(report.num_running)},
                     {semconv::kNumWaiting, count(report.num_waiting)}};
  span.attributes.insert(span.attributes.end(),
                         {{semconv::kBatchOutputRows, count(report.shape.num_output_rows)},
                          {semconv::kBatchDecodeKeys, count(report.shape.decode_keys)},
                          {semconv::kBatchPrefillPairs, count(report.shape.prefill_pairs)},
                          {semconv::kBatchCopies, count(report.num_copies)}});
  span.links = links.links();
  span.num_dropped_links = links.num_dropped();
  if (report.is_lost) {
    span.status = SpanStatus::kError;
    span.status_message = "the worker died";
    span.attributes.push_back({semconv::kErrorType, std::string(semconv::kWorkerLostEvent)});
  }
  tracer.record_iteration(std::move(span));
}

}  // namespace troupe
