// SPDX-License-Identifier: Apache-2.0
#include "actors/iteration_trace.hpp"

#include <string>
#include <utility>

#include "telemetry/semantic_conventions.hpp"

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

void record_iteration(Tracer& tracer, const IterationLinks& links, const IterationFacts& facts) {
  const auto count = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  Span span;
  span.name = semconv::kIteration;
  span.context = tracer.next_root();
  span.context.is_sampled = true;  // because a request in it is
  span.start_unix_nanoseconds = tracer.unix_nanoseconds(facts.begun);
  span.end_unix_nanoseconds = tracer.unix_nanoseconds(facts.ended);
  const double network_seconds = static_cast<double>(facts.network_nanoseconds) * 1e-9;
  span.attributes = {{semconv::kEpoch, count(facts.epoch)},
                     {semconv::kBatchId, count(facts.batch_id)},
                     {semconv::kBatchTokens, count(facts.num_tokens)},
                     {semconv::kBatchSequences, count(facts.num_sequences)},
                     {semconv::kBatchPrefillTokens, count(facts.num_tokens - facts.num_decodes)},
                     {semconv::kBatchDecodeSequences, count(facts.num_decodes)},
                     {semconv::kNetworkSeconds, network_seconds},
                     {semconv::kNumRunning, count(facts.num_running)},
                     {semconv::kNumWaiting, count(facts.num_waiting)}};
  span.links = links.links();
  span.num_dropped_links = links.num_dropped();
  if (facts.is_lost) {
    span.status = SpanStatus::kError;
    span.status_message = "the worker died";
    span.attributes.push_back({semconv::kErrorType, std::string(semconv::kWorkerLostEvent)});
  }
  std::vector<Span> spans;
  spans.push_back(std::move(span));
  tracer.record(std::move(spans));
}

}  // namespace troupe
