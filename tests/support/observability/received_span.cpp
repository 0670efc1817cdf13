// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/received_span.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "tests/support/observability/protobuf_reader.hpp"

namespace troupe::test {
namespace {

using nlohmann::json;

json plain(const json& value) {
  if (value.contains("stringValue")) return value.at("stringValue");
  if (value.contains("boolValue")) return value.at("boolValue");
  if (value.contains("doubleValue")) return value.at("doubleValue");
  if (value.contains("intValue")) return std::stoll(value.at("intValue").get<std::string>());
  json list = json::array();
  if (value.contains("arrayValue") && value.at("arrayValue").contains("values"))
    for (const auto& element : value.at("arrayValue").at("values")) list.push_back(plain(element));
  return list;
}

std::map<std::string, json> attributes_of(const json& holder) {
  std::map<std::string, json> read;
  for (const auto& attribute : holder.value("attributes", json::array()))
    read[attribute.at("key")] = plain(attribute.at("value"));
  return read;
}

std::int64_t time_of(const json& value) { return std::stoll(value.get<std::string>()); }

ReceivedSpan parse_span(const json& span) {
  ReceivedSpan read;
  read.trace_id = span.at("traceId");
  read.span_id = span.at("spanId");
  read.parent_id = span.value("parentSpanId", "");
  read.trace_state = span.value("traceState", "");
  read.name = span.at("name");
  read.kind = span.at("kind");
  read.start = time_of(span.at("startTimeUnixNano"));
  read.end = time_of(span.at("endTimeUnixNano"));
  if (span.contains("status")) {
    read.status = span.at("status").value("code", 0);
    read.status_message = span.at("status").value("message", "");
  }
  read.attributes = attributes_of(span);
  for (const auto& event : span.value("events", json::array()))
    read.events.push_back({event.at("name"), time_of(event.at("timeUnixNano")), attributes_of(event)});
  for (const auto& link : span.value("links", json::array()))
    read.links.push_back({link.at("traceId"), link.at("spanId")});
  return read;
}

// ---- protobuf: field numbers of opentelemetry-proto's trace.proto and common.proto

std::string hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

json plain(const ProtobufMessage& value) {
  if (value.has(1)) return value.text(1);
  if (value.has(2)) return value.number(2) != 0;
  if (value.has(3)) return static_cast<std::int64_t>(value.number(3));
  if (value.has(4)) return value.real(4);
  if (!value.has(5)) throw std::runtime_error("an attribute without a value");
  json list = json::array();
  for (const auto& array : value.messages(5))
    for (const auto& element : array.messages(1)) list.push_back(plain(element));
  return list;
}

// number: of the field that holds them
std::map<std::string, json> attributes_of(const ProtobufMessage& holder, int number) {
  std::map<std::string, json> read;
  for (const auto& attribute : holder.messages(number))
    read[attribute.text(1)] = plain(attribute.messages(2).at(0));
  return read;
}

ReceivedSpan parse_span(const ProtobufMessage& span) {
  ReceivedSpan read;
  read.trace_id = hex(span.text(1));
  read.span_id = hex(span.text(2));
  read.trace_state = span.text(3);
  read.parent_id = hex(span.text(4));
  read.name = span.text(5);
  read.kind = static_cast<int>(span.number(6));
  read.start = static_cast<std::int64_t>(span.fixed(7));
  read.end = static_cast<std::int64_t>(span.fixed(8));
  read.attributes = attributes_of(span, 9);
  for (const auto& event : span.messages(11))
    read.events.push_back(
        {event.text(2), static_cast<std::int64_t>(event.fixed(1)), attributes_of(event, 3)});
  for (const auto& link : span.messages(13)) read.links.push_back({hex(link.text(1)), hex(link.text(2))});
  for (const auto& status : span.messages(15)) {
    read.status = static_cast<int>(status.number(3));
    read.status_message = status.text(2);
  }
  if (read.trace_id.size() != 32 || read.span_id.size() != 16) throw std::runtime_error("a span without ids");
  return read;
}

}  // namespace

bool ReceivedSpan::has_event(const std::string& event) const {
  return std::any_of(events.begin(), events.end(), [&](const auto& e) { return e.name == event; });
}

std::vector<ReceivedSpan> parse_spans(const json& request) {
  std::vector<ReceivedSpan> spans;
  for (const auto& resource : request.at("resourceSpans"))
    for (const auto& scope : resource.at("scopeSpans"))
      for (const auto& span : scope.at("spans")) spans.push_back(parse_span(span));
  return spans;
}

std::vector<ReceivedSpan> parse_protobuf_spans(const std::string& request) {
  std::vector<ReceivedSpan> spans;
  for (const auto& resource : ProtobufMessage(request).messages(1))
    for (const auto& scope : resource.messages(2))
      for (const auto& span : scope.messages(2)) spans.push_back(parse_span(span));
  return spans;
}

std::vector<ReceivedSpan> read_spans(const std::string& path) {
  std::ifstream file(path);
  std::vector<ReceivedSpan> spans;
  for (std::string line; std::getline(file, line);) {
    const auto more = parse_spans(json::parse(line));
    spans.insert(spans.end(), more.begin(), more.end());
  }
  return spans;
}

}  // namespace troupe::test
