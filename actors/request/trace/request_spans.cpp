// SPDX-License-Identifier: Apache-2.0
// The spans of a request, made when it has ended.
#include <algorithm>
#include <string>
#include <utility>

#include "actors/reports/seconds.hpp"
#include "actors/request/trace/captured_content.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"
#include "telemetry/tracing/trace_context.hpp"

namespace troupe {
namespace {

constexpr std::string_view kCancelled = "cancelled";

std::string_view phase_name(RequestPhase phase) {
  switch (phase) {
    case RequestPhase::kEncode: return semconv::kEncode;
    case RequestPhase::kQueue: return semconv::kQueue;
    case RequestPhase::kAdmit: return semconv::kAdmit;
    case RequestPhase::kLoad: return semconv::kLoad;
    case RequestPhase::kPrefill: return semconv::kPrefill;
    case RequestPhase::kDecode: return semconv::kDecode;
    case RequestPhase::kSuspended: return semconv::kSuspended;
    case RequestPhase::kNone: break;
  }
  return "";
}

std::string text(std::string_view view) { return std::string(view); }
std::int64_t integer(std::uint64_t number) { return static_cast<std::int64_t>(number); }
std::string_view operation_of(const GenerationRequest& request) {
  if (request.wants_vector) return semconv::kEmbeddings;
  return std::holds_alternative<ChatPrompt>(request.prompt) ? semconv::kChat : semconv::kTextCompletion;
}

void add_http(std::vector<SpanAttribute>& attributes, const RequestTrace& trace) {
  const RequestOrigin& origin = trace.request().origin;
  if (!origin.request_id.empty()) attributes.push_back({semconv::kRequestId, origin.request_id});
  if (origin.method.empty()) return;
  attributes.push_back({semconv::kHttpRequestMethod, text(origin.method)});
  attributes.push_back({semconv::kHttpRoute, text(origin.path)});
  attributes.push_back({semconv::kUrlPath, text(origin.path)});
  if (const auto status = http_status_of(trace))
    attributes.push_back({semconv::kHttpResponseStatusCode, integer(*status)});
}

void add_request(std::vector<SpanAttribute>& attributes, const RequestTrace& trace, std::string_view model) {
  const GenerationRequest& request = trace.request();
  attributes.push_back({semconv::kOperationName, text(operation_of(request))});
  attributes.push_back({semconv::kProviderName, text(semconv::kTroupe)});
  if (trace.tracer()->writes_old_names()) attributes.push_back({semconv::kOldSystem, text(semconv::kTroupe)});
  attributes.push_back({semconv::kRequestModel, text(model)});
  attributes.push_back({semconv::kRequestStream, request.origin.is_stream});
  if (request.max_tokens) attributes.push_back({semconv::kRequestMaxTokens, integer(*request.max_tokens)});
  const SamplingParameters& sampling = request.sampling;
  attributes.push_back({semconv::kRequestTemperature, double{sampling.temperature}});
  attributes.push_back({semconv::kRequestTopP, double{sampling.top_p}});
  if (sampling.top_k > 0) attributes.push_back({semconv::kRequestTopK, std::int64_t{sampling.top_k}});
  if (request.has_seed) attributes.push_back({semconv::kRequestSeed, integer(sampling.seed)});
}

void add_response(std::vector<SpanAttribute>& attributes, const RequestTrace& trace, std::string_view model) {
  const RequestOutcome& outcome = trace.outcome();
  attributes.push_back({semconv::kResponseId, trace.request().id});
  attributes.push_back({semconv::kResponseModel, text(model)});
  const std::string_view error = error_type_of(trace);
  if (!error.empty()) {
    attributes.push_back({semconv::kErrorType, text(error)});
  } else {
    const bool is_length = outcome.reason == FinishReason::kLength;
    attributes.push_back(
        {semconv::kResponseFinishReasons, std::vector<std::string>{is_length ? "length" : "stop"}});
  }
  if (const auto first = trace.first_token())
    attributes.push_back({semconv::kResponseTimeToFirstChunk, in_seconds(*first - trace.received())});
  if (outcome.usage.prompt_tokens == 0) return;  // it was refused before
  attributes.push_back({semconv::kUsageInputTokens, integer(outcome.usage.prompt_tokens)});
  attributes.push_back({semconv::kUsageOutputTokens, integer(outcome.usage.completion_tokens)});
  attributes.push_back({semconv::kUsageCachedTokens, integer(outcome.usage.cached_tokens)});
}

void add_content(std::vector<SpanAttribute>& attributes, const RequestTrace& trace) {
  if (auto messages = input_messages(trace.request()); !messages.empty())
    attributes.push_back({semconv::kInputMessages, std::move(messages)});
  if (trace.answer().empty()) return;
  const FinishReason reason = trace.outcome().reason;
  const std::string_view name = reason == FinishReason::kStop     ? "stop"
                                : reason == FinishReason::kLength ? "length"
                                                                  : "error";
  attributes.push_back({semconv::kOutputMessages, output_messages(trace.answer(), name)});
}

// Prompt and answer, with what says whose they are: kept apart from the span's attributes.
SpanEvent details_event(const RequestTrace& trace, std::string_view model) {
  SpanEvent event{.name = semconv::kDetailsEvent,
                  .unix_nanoseconds = trace.tracer()->unix_nanoseconds(trace.ended())};
  event.attributes.push_back({semconv::kOperationName, text(operation_of(trace.request()))});
  event.attributes.push_back({semconv::kRequestModel, text(model)});
  event.attributes.push_back({semconv::kResponseId, trace.request().id});
  add_content(event.attributes, trace);
  return event;
}

SpanEvent span_event(const RequestTrace& trace, const EventRecord& record) {
  SpanEvent event{.name = record.name, .unix_nanoseconds = trace.tracer()->unix_nanoseconds(record.time)};
  if (record.reserved_tokens)
    event.attributes.push_back({semconv::kReservedTokens, integer(*record.reserved_tokens)});
  if (!record.outcome.empty()) event.attributes.push_back({semconv::kOverrunOutcome, text(record.outcome)});
  return event;
}

Span root_span(const RequestTrace& trace, std::string_view model) {
  const GenerationRequest& request = trace.request();
  Span root;
  root.name = text(operation_of(request)) + " " + text(model);
  root.context = trace.context();
  root.parent = request.origin.parent;
  root.tracestate = request.origin.tracestate;
  root.kind = SpanKind::kServer;
  root.start_unix_nanoseconds = trace.tracer()->unix_nanoseconds(trace.received());
  root.end_unix_nanoseconds = trace.tracer()->unix_nanoseconds(trace.ended());
  add_request(root.attributes, trace, model);
  add_response(root.attributes, trace, model);
  const ContentCapture capture = trace.tracer()->content_capture();
  if (capture.in_attributes) add_content(root.attributes, trace);
  add_http(root.attributes, trace);
  for (const EventRecord& event : trace.events()) root.events.push_back(span_event(trace, event));
  if (capture.in_event) root.events.push_back(details_event(trace, model));
  root.num_dropped_events = trace.num_dropped_events();
  if (has_failed(trace)) {
    root.status = SpanStatus::kError;
    if (trace.outcome().error) root.status_message = trace.outcome().error->message;
  }
  return root;
}

// The phase's batches: their number, their mean size, and the time in which the sequence
// was in none.
void add_batches(std::vector<SpanAttribute>& attributes, const PhaseRecord& record) {
  const BatchTally& batches = record.batches;
  if (batches.num_batches == 0) return;
  const double mean = static_cast<double>(batches.num_sequences) / batches.num_batches;
  const auto waited = std::max(record.end - record.start - batches.time, std::chrono::nanoseconds(0));
  attributes.push_back({semconv::kNumBatches, integer(batches.num_batches)});
  attributes.push_back({semconv::kMeanBatchSequences, mean});
  attributes.push_back({semconv::kBatchSeconds, in_seconds(batches.time)});
  attributes.push_back({semconv::kWaitSeconds, in_seconds(waited)});
}

Span phase_span(const RequestTrace& trace, const PhaseRecord& record) {
  Span span;
  span.name = text(phase_name(record.phase));
  span.context = trace.context();
  span.context.span = draw_span_id();
  span.parent = trace.context().span;
  span.start_unix_nanoseconds = trace.tracer()->unix_nanoseconds(record.start);
  span.end_unix_nanoseconds = trace.tracer()->unix_nanoseconds(record.end);
  const bool has_run = record.phase == RequestPhase::kPrefill || record.phase == RequestPhase::kDecode;
  if (!has_run) return span;
  span.attributes.push_back({semconv::kRun, std::int64_t{record.run}});
  span.attributes.push_back({semconv::kWorker, integer(record.started.worker)});
  span.attributes.push_back({semconv::kEpoch, integer(record.started.epoch)});
  add_batches(span.attributes, record);
  if (record.phase != RequestPhase::kPrefill) return span;
  const SequenceStarted& started = record.started;
  span.attributes.push_back({semconv::kCachedTokens, integer(started.cached_tokens)});
  span.attributes.push_back({semconv::kComputedTokens, integer(started.num_known - started.cached_tokens)});
  span.attributes.push_back({semconv::kTokensFromHost, integer(started.sources.host)});
  span.attributes.push_back({semconv::kTokensFromDisk, integer(started.sources.disk)});
  span.attributes.push_back({semconv::kRecomputedTokens, integer(started.sources.recomputed)});
  return span;
}

}  // namespace

std::optional<unsigned> http_status_of(const RequestTrace& trace) {
  const RequestOutcome& outcome = trace.outcome();
  if (trace.request().origin.is_stream && trace.is_accepted()) return 200;
  switch (outcome.reason) {
    case FinishReason::kStop:
    case FinishReason::kLength: return 200;
    case FinishReason::kCancelled: return std::nullopt;
    case FinishReason::kError: break;
  }
  return http_status(outcome.error ? outcome.error->kind : ApiErrorKind::kInternal);
}

std::string_view error_type_of(const RequestTrace& trace) {
  const RequestOutcome& outcome = trace.outcome();
  switch (outcome.reason) {
    case FinishReason::kStop:
    case FinishReason::kLength: return {};
    case FinishReason::kCancelled: return kCancelled;
    case FinishReason::kError: break;
  }
  return name_of(outcome.error ? outcome.error->kind : ApiErrorKind::kInternal);
}

bool has_failed(const RequestTrace& trace) {
  const RequestOutcome& outcome = trace.outcome();
  if (outcome.reason == FinishReason::kCancelled) return true;
  if (outcome.reason != FinishReason::kError) return false;
  return !outcome.error || trace.is_accepted() || http_status(outcome.error->kind) >= 500 ||
         outcome.error->kind == ApiErrorKind::kWaitedTooLong;
}

std::vector<Span> request_spans(const RequestTrace& trace, std::string_view model) {
  std::vector<Span> spans;
  spans.reserve(1 + trace.phases().size());
  spans.push_back(root_span(trace, model));
  for (const PhaseRecord& phase : trace.phases()) spans.push_back(phase_span(trace, phase));
  return spans;
}

void record_request(const RequestTrace& trace, std::string_view model) {
  Tracer* tracer = trace.tracer();
  if (tracer == nullptr || !trace.context().is_valid()) return;
  const bool is_sampled = trace.context().is_sampled;
  const bool is_kept_as_failed = !is_sampled && has_failed(trace);
  const bool is_kept_as_slow = !is_sampled && tracer->is_slow(trace.timings().total);
  const bool is_exported = is_sampled || is_kept_as_failed || is_kept_as_slow;
  if (!is_exported && !tracer->recent().keeps_any()) return;
  auto spans = request_spans(trace, model);
  if (is_exported && !is_sampled)
    spans.front().attributes.push_back({semconv::kKept, std::string(is_kept_as_failed ? "error" : "slow")});
  tracer->record_request(trace.request().tenant, std::move(spans), is_exported);
}

}  // namespace troupe
