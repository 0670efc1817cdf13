// SPDX-License-Identifier: Apache-2.0
// A completed piece of work, as OpenTelemetry describes it. Plain values: made
// once all is known, never changed after, sent away whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "telemetry/tracing/trace_context.hpp"

namespace troupe {

using AttributeValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct SpanAttribute {
  std::string_view key;  // a literal: it is not copied
  AttributeValue value;
};

struct SpanEvent {
  std::string_view name;  // a literal
  std::int64_t unix_nanoseconds = 0;
  std::vector<SpanAttribute> attributes = {};
};

// OTLP's numbers.
enum class SpanKind : std::uint8_t { kInternal = 1, kServer = 2 };
enum class SpanStatus : std::uint8_t { kUnset = 0, kOk = 1, kError = 2 };

struct Span {
  std::string name;
  TraceContext context;
  SpanId parent = 0;  // 0: a root
  std::string tracestate = {};
  SpanKind kind = SpanKind::kInternal;
  std::int64_t start_unix_nanoseconds = 0;
  std::int64_t end_unix_nanoseconds = 0;
  std::vector<SpanAttribute> attributes = {};
  std::vector<SpanEvent> events = {};
  std::vector<TraceContext> links = {};
  std::uint32_t num_dropped_events = 0;  // beyond a bound
  std::uint32_t num_dropped_links = 0;
  SpanStatus status = SpanStatus::kUnset;
  std::string status_message = {};
};

// Origin of the spans: OpenTelemetry's resource and instrumentation scope.
struct TraceSource {
  std::string service_name = "troupe";
  std::string version;
  std::vector<SpanAttribute> more = {};  // of the resource
};

}  // namespace troupe
