// SPDX-License-Identifier: Apache-2.0
// The trace that a piece of work belongs to, across processes: W3C trace context
// (traceparent and tracestate, level 1). The input is a stranger's text;
// anything that is not exactly right is treated as absent, as the W3C asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

struct TraceId {
  std::uint64_t high = 0, low = 0;
  bool is_valid() const { return high != 0 || low != 0; }
  auto operator<=>(const TraceId&) const = default;
};
using SpanId = std::uint64_t;  // 0: none

struct TraceContext {
  TraceId trace;
  SpanId span = 0;
  bool is_sampled = false;
  bool is_valid() const { return trace.is_valid() && span != 0; }
};

// 00-<32 hex>-<16 hex>-<2 hex>, lower case. Later versions are read as far as
// version 00 goes. nullopt: malformed, or an id is all zeros.
std::optional<TraceContext> parse_traceparent(std::string_view header);
std::string format_traceparent(const TraceContext& context);

// The list as it came if it is well-formed and at most 512 bytes; else empty.
std::string checked_tracestate(std::string_view header);

std::string hex_of(const TraceId& trace);  // 32 digits
std::string hex_of(SpanId span);           // 16 digits
void append_hex(std::string& out, std::uint64_t number);

// OpenTelemetry's consistent sampling: the last 56 bits of the id against a
// threshold, so that every service with the same ratio decides alike.
bool is_in_ratio(const TraceId& trace, double ratio);

// From the system's random source, never 0: no id tells of another. Any thread.
TraceId draw_trace_id();
SpanId draw_span_id();

}  // namespace troupe
