// SPDX-License-Identifier: Apache-2.0
#include "http/routing/refusal_span.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

constexpr unsigned kClientGone = 499;

}  // namespace

void record_refusal(Tracer& tracer, const RequestOrigin& origin, unsigned status) {
  const bool is_server_error = status >= 500;
  if (!origin.trace.is_sampled && !is_server_error) return;
  Span span;
  span.name = std::string(origin.method) + " " + std::string(origin.path);
  span.context = origin.trace;
  span.parent = origin.parent;
  span.tracestate = origin.tracestate;
  span.kind = SpanKind::kServer;
  span.start_unix_nanoseconds = tracer.unix_nanoseconds(origin.received);
  span.end_unix_nanoseconds = tracer.unix_nanoseconds(std::chrono::steady_clock::now());
  span.attributes = {{semconv::kHttpRequestMethod, std::string(origin.method)},
                     {semconv::kHttpRoute, std::string(origin.path)},
                     {semconv::kRequestId, origin.request_id}};
  if (status == kClientGone) {
    span.attributes.push_back({semconv::kErrorType, std::string("cancelled")});
  } else {
    span.attributes.push_back({semconv::kHttpResponseStatusCode, std::int64_t{status}});
    span.attributes.push_back({semconv::kErrorType, std::to_string(status)});
  }
  if (is_server_error) {
    span.status = SpanStatus::kError;
    if (!origin.trace.is_sampled) span.attributes.push_back({semconv::kKept, std::string("error")});
  }
  std::vector<Span> spans;
  spans.push_back(std::move(span));
  tracer.record(std::move(spans));
}

}  // namespace troupe
