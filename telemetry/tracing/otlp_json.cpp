// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_json.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "telemetry/quoted_text.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

constexpr std::string_view kTail = "]}]}]}";
constexpr std::size_t kBytesASpan = 512;  // to begin with

void append_integer(std::string& out, std::int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_integer_string(std::string& out, std::int64_t number) {
  out += '"';
  append_integer(out, number);
  out += '"';
}

// JSON has no infinity and no NaN; protobuf's JSON spells them as strings.
void append_double(std::string& out, double number) {
  if (std::isnan(number)) {
    out += "\"NaN\"";
  } else if (std::isinf(number)) {
    out += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append(digits.data(), end);
  }
}

struct ValueWriter {
  std::string& out;

  void operator()(bool value) const { out += value ? "{\"boolValue\":true}" : "{\"boolValue\":false}"; }
  void operator()(std::int64_t value) const {
    out += "{\"intValue\":";
    append_integer_string(out, value);
    out += '}';
  }
  void operator()(double value) const {
    out += "{\"doubleValue\":";
    append_double(out, value);
    out += '}';
  }
  void operator()(const std::string& value) const {
    out += "{\"stringValue\":";
    append_quoted(out, value);
    out += '}';
  }
  void operator()(const std::vector<std::string>& values) const {
    out += "{\"arrayValue\":{\"values\":[";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      (*this)(values[i]);
    }
    out += "]}}";
  }
};

void append_attributes(std::string& out, const std::vector<SpanAttribute>& attributes) {
  out += "\"attributes\":[";
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"key\":";
    append_quoted(out, attributes[i].key);
    out += ",\"value\":";
    std::visit(ValueWriter{out}, attributes[i].value);
    out += '}';
  }
  out += ']';
}

void append_context(std::string& out, const TraceContext& context) {
  out += "{\"traceId\":\"";
  append_hex(out, context.trace.high);
  append_hex(out, context.trace.low);
  out += "\",\"spanId\":\"";
  append_hex(out, context.span);
  out += '"';
}

void append_event(std::string& out, const SpanEvent& event) {
  out += "{\"timeUnixNano\":";
  append_integer_string(out, event.unix_nanoseconds);
  out += ",\"name\":";
  append_quoted(out, event.name);
  out += ',';
  append_attributes(out, event.attributes);
  out += '}';
}

void append_count(std::string& out, std::string_view name, std::uint32_t count) {
  if (count == 0) return;
  out.append(",\"").append(name).append("\":");
  append_integer(out, count);
}

void append_events(std::string& out, const Span& span) {
  if (!span.events.empty()) {
    out += ",\"events\":[";
    for (std::size_t i = 0; i < span.events.size(); ++i) {
      if (i > 0) out += ',';
      append_event(out, span.events[i]);
    }
    out += ']';
  }
  append_count(out, "droppedEventsCount", span.num_dropped_events);
}

void append_links(std::string& out, const Span& span) {
  if (!span.links.empty()) {
    out += ",\"links\":[";
    for (std::size_t i = 0; i < span.links.size(); ++i) {
      if (i > 0) out += ',';
      append_context(out, span.links[i]);
      out += '}';
    }
    out += ']';
  }
  append_count(out, "droppedLinksCount", span.num_dropped_links);
}

void append_status(std::string& out, const Span& span) {
  if (span.status == SpanStatus::kUnset) return;
  out += ",\"status\":{\"code\":";
  append_integer(out, static_cast<std::int64_t>(span.status));
  if (!span.status_message.empty()) {
    out += ",\"message\":";
    append_quoted(out, span.status_message);
  }
  out += '}';
}

void append_span(std::string& out, const Span& span) {
  append_context(out, span.context);
  if (!span.tracestate.empty()) {
    out += ",\"traceState\":";
    append_quoted(out, span.tracestate);
  }
  if (span.parent != 0) {
    out += ",\"parentSpanId\":\"";
    append_hex(out, span.parent);
    out += '"';
  }
  out += ",\"flags\":";
  append_integer(out, span.context.is_sampled ? 1 : 0);
  out += ",\"name\":";
  append_quoted(out, span.name);
  out += ",\"kind\":";
  append_integer(out, static_cast<std::int64_t>(span.kind));
  out += ",\"startTimeUnixNano\":";
  append_integer_string(out, span.start_unix_nanoseconds);
  out += ",\"endTimeUnixNano\":";
  append_integer_string(out, span.end_unix_nanoseconds);
  out += ',';
  append_attributes(out, span.attributes);
  append_events(out, span);
  append_links(out, span);
  append_status(out, span);
  out += '}';
}

}  // namespace

OtlpJson::OtlpJson(const TraceSource& source) {
  std::vector<SpanAttribute> attributes = {{semconv::kServiceName, source.service_name},
                                           {semconv::kServiceVersion, source.version}};
  attributes.insert(attributes.end(), source.more.begin(), source.more.end());
  head_ = "{\"resourceSpans\":[{\"resource\":{";
  append_attributes(head_, attributes);
  head_ += "},\"scopeSpans\":[{\"scope\":{\"name\":\"troupe\",\"version\":";
  append_quoted(head_, source.version);
  head_ += "},\"schemaUrl\":";
  append_quoted(head_, semconv::kSchemaUrl);
  head_ += ",\"spans\":[";
}

std::string OtlpJson::request_of(const std::vector<SpanTree>& trees) const {
  std::string out = head_;
  out.reserve(head_.size() + count_spans(trees) * kBytesASpan);
  bool is_first = true;
  for (const auto& tree : trees) {
    for (const Span& span : *tree) {
      if (!is_first) out += ',';
      is_first = false;
      append_span(out, span);
    }
  }
  out += kTail;
  return out;
}

}  // namespace troupe
