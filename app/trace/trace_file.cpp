// SPDX-License-Identifier: Apache-2.0
#include "app/trace/trace_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "telemetry/json_depth.hpp"

namespace troupe {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error(what); }

std::string shown(const json& value) {
  constexpr std::size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

const json& member(const json& object, const char* name) {
  static const json kNone;
  if (!object.is_object()) refuse("expected an object, got " + shown(object));
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

// Absent is empty; anything but a list is refused.
const json& list(const json& object, const char* name) {
  static const json kEmpty = json::array();
  const json& value = member(object, name);
  if (value.is_null()) return kEmpty;
  if (!value.is_array()) refuse(std::string(name) + ": expected a list, got " + shown(value));
  return value;
}

std::string string_of(const json& object, const char* name) {
  const json& value = member(object, name);
  if (value.is_null()) return {};
  if (!value.is_string()) refuse(std::string(name) + ": expected a string, got " + shown(value));
  return value.get<std::string>();
}

std::string id_of(const json& object, const char* name, std::size_t num_digits) {
  std::string id = string_of(object, name);
  const bool is_hex = id.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (!id.empty() && (id.size() != num_digits || !is_hex))
    refuse(std::string(name) + ": expected " + std::to_string(num_digits) + " hex digits, got " +
           shown(member(object, name)));
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id;
}

// 64-bit integers are strings in OTLP/JSON; some writers use numbers.
std::optional<std::int64_t> integer_of(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& digits = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::int64_t time_of(const json& object, const char* name) {
  const json& value = member(object, name);
  const auto time = integer_of(value);
  if (!time || *time < 0)
    refuse(std::string(name) + ": expected nanoseconds since 1970 as a string, got " + shown(value));
  return *time;
}

void add_attribute(TraceSpan& span, const json& attribute) {
  const std::string key = string_of(attribute, "key");
  const json& value = member(attribute, "value");
  if (!value.is_object() || value.empty()) return;
  const json& content = value.begin().value();
  if (value.begin().key() == "intValue") {
    if (const auto number = integer_of(content)) span.numbers[key] = static_cast<double>(*number);
  } else if (content.is_number()) {
    span.numbers[key] = content.get<double>();
  } else if (content.is_boolean()) {
    span.texts[key] = content.get<bool>() ? "true" : "false";
  } else if (content.is_string()) {
    span.texts[key] = content.get<std::string>();
  } else {
    span.texts[key] = shown(content);
  }
}

TraceSpan read_span(const json& object, const std::string& instance) {
  TraceSpan span;
  span.instance = instance;
  span.trace_id = id_of(object, "traceId", 32);
  span.span_id = id_of(object, "spanId", 16);
  if (span.trace_id.empty() || span.span_id.empty()) refuse("a span needs a traceId and a spanId");
  span.parent_id = id_of(object, "parentSpanId", 16);
  span.name = string_of(object, "name");
  span.kind = static_cast<int>(integer_of(member(object, "kind")).value_or(0));
  span.start = time_of(object, "startTimeUnixNano");
  span.end = time_of(object, "endTimeUnixNano");
  if (span.end < span.start) refuse("the span " + span.span_id + " ends before it begins");
  const json& status = member(object, "status");
  span.is_error = status.is_object() && integer_of(member(status, "code")) == 2;
  for (const json& attribute : list(object, "attributes")) add_attribute(span, attribute);
  for (const json& event : list(object, "events"))
    span.events.push_back({string_of(event, "name"), time_of(event, "timeUnixNano")});
  for (const json& link : list(object, "links"))
    span.links.push_back({id_of(link, "traceId", 32), id_of(link, "spanId", 16)});
  return span;
}

std::string instance_of(const json& resource) {
  TraceSpan attributes;
  for (const json& attribute : list(resource, "attributes")) add_attribute(attributes, attribute);
  const std::string instance = attributes.text("service.instance.id");
  return instance.empty() ? attributes.text("service.name") : instance;
}

void read_request(const json& request, std::vector<TraceSpan>& spans) {
  if (!request.is_object() || !request.contains("resourceSpans"))
    refuse("expected an OTLP export request with resourceSpans, got " + shown(request));
  for (const json& resource : list(request, "resourceSpans")) {
    const json& about = member(resource, "resource");
    const std::string instance = about.is_null() ? "" : instance_of(about);
    for (const json& scope : list(resource, "scopeSpans"))
      for (const json& span : list(scope, "spans")) spans.push_back(read_span(span, instance));
  }
}

}  // namespace

double TraceSpan::number(const std::string& key) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? 0 : found->second;
}

std::string TraceSpan::text(const std::string& key) const {
  const auto found = texts.find(key);
  return found == texts.end() ? "" : found->second;
}

TraceFile read_trace_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream || std::filesystem::is_directory(path))
    refuse(path.string() + ": can't be read: " + std::strerror(errno == 0 ? EISDIR : errno));
  TraceFile file;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path.string() + ":" + std::to_string(number);
    if (is_nested_deeper(line))
      refuse(where + ": expected JSON of at most " + std::to_string(kMaxJsonDepth) + " levels");
    const json request = json::parse(line, nullptr, false);
    if (request.is_discarded()) {
      if (!stream.eof()) refuse(where + ": expected a line of JSON");
      file.warnings.push_back(where + ": the last line is cut off and left out");
      break;
    }
    try {
      read_request(request, file.spans);
    } catch (const std::exception& error) {
      refuse(where + ": " + error.what());
    }
  }
  return file;
}

}  // namespace troupe
