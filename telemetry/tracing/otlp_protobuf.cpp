// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_protobuf.hpp"

#include <cstdint>

#include "telemetry/quoted_text.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

std::string big_endian(std::uint64_t number) {
  std::string bytes(8, '\0');
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, number >>= 8)
    *byte = static_cast<char>(number & 0xFF);
  return bytes;
}

std::string bytes_of(const TraceId& trace) { return big_endian(trace.high) + big_endian(trace.low); }

std::uint64_t unsigned_of(std::int64_t nanoseconds) { return static_cast<std::uint64_t>(nanoseconds); }

struct ValueMessage {
  ProtobufWriter operator()(bool value) const { return choice(2, value); }
  ProtobufWriter operator()(std::int64_t value) const { return choice(3, value); }
  ProtobufWriter operator()(double value) const { return choice(4, value); }
  ProtobufWriter operator()(const std::string& value) const { return choice(1, as_utf8(value)); }
  ProtobufWriter operator()(const std::vector<std::string>& values) const {
    ProtobufWriter array;
    for (const auto& value : values) array.add_message(1, (*this)(value));
    ProtobufWriter message;
    message.add_message(5, array);
    return message;
  }

 private:
  template <class Value>
  static ProtobufWriter choice(std::uint32_t field, const Value& value) {
    ProtobufWriter message;
    message.add_choice(field, value);
    return message;
  }
};

void add_attributes(ProtobufWriter& message, std::uint32_t field,
                    const std::vector<SpanAttribute>& attributes) {
  for (const auto& attribute : attributes) {
    ProtobufWriter pair;
    pair.add_string(1, attribute.key);
    pair.add_message(2, std::visit(ValueMessage{}, attribute.value));
    message.add_message(field, pair);
  }
}

ProtobufWriter event_message(const SpanEvent& event) {
  ProtobufWriter message;
  message.add_fixed64(1, unsigned_of(event.unix_nanoseconds));
  message.add_string(2, event.name);
  add_attributes(message, 3, event.attributes);
  return message;
}

ProtobufWriter link_message(const TraceContext& link) {
  ProtobufWriter message;
  message.add_bytes(1, bytes_of(link.trace));
  message.add_bytes(2, big_endian(link.span));
  return message;
}

ProtobufWriter status_message(const Span& span) {
  ProtobufWriter message;
  message.add_string(2, as_utf8(span.status_message));
  message.add_int32(3, static_cast<std::int32_t>(span.status));
  return message;
}

ProtobufWriter span_message(const Span& span) {
  ProtobufWriter message;
  message.add_bytes(1, bytes_of(span.context.trace));
  message.add_bytes(2, big_endian(span.context.span));
  message.add_string(3, span.tracestate);  // checked when it came
  if (span.parent != 0) message.add_bytes(4, big_endian(span.parent));
  message.add_string(5, as_utf8(span.name));
  message.add_int32(6, static_cast<std::int32_t>(span.kind));
  message.add_fixed64(7, unsigned_of(span.start_unix_nanoseconds));
  message.add_fixed64(8, unsigned_of(span.end_unix_nanoseconds));
  add_attributes(message, 9, span.attributes);
  for (const auto& event : span.events) message.add_message(11, event_message(event));
  message.add_uint64(12, span.num_dropped_events);
  for (const auto& link : span.links) message.add_message(13, link_message(link));
  message.add_uint64(14, span.num_dropped_links);
  if (span.status != SpanStatus::kUnset) message.add_message(15, status_message(span));
  message.add_fixed32(16, span.context.is_sampled ? 1 : 0);
  return message;
}

}  // namespace

OtlpProtobuf::OtlpProtobuf(const TraceSource& source) {
  add_attributes(resource_, 1,
                 {{semconv::kServiceName, source.service_name}, {semconv::kServiceVersion, source.version}});
  add_attributes(resource_, 1, source.more);
  scope_.add_string(1, "troupe");
  scope_.add_string(2, source.version);
}

std::string OtlpProtobuf::request_of(const std::vector<SpanTree>& trees) const {
  ProtobufWriter scope_spans;
  scope_spans.add_message(1, scope_);
  for (const auto& tree : trees)
    for (const Span& span : *tree) scope_spans.add_message(2, span_message(span));
  scope_spans.add_string(3, semconv::kSchemaUrl);
  ProtobufWriter resource_spans;
  resource_spans.add_message(1, resource_);
  resource_spans.add_message(2, scope_spans);
  ProtobufWriter request;
  request.add_message(1, resource_spans);
  return request.bytes();
}

}  // namespace troupe
