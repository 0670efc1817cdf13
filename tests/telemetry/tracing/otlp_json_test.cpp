// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_json.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "telemetry/quoted_text.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr TraceContext kContext{.trace = {.high = 0x0af7651916cd43ddULL, .low = 0x8448eb211c80319cULL},
                                .span = 0xb7ad6b7169203331ULL,
                                .is_sampled = true};

json written(std::vector<Span> spans) {
  const OtlpJson format({.service_name = "demo", .version = "1.2.3"});
  return json::parse(format.request_of({std::make_shared<const std::vector<Span>>(std::move(spans))}));
}

json span_of(Span span) {
  return written({std::move(span)}).at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").at(0);
}

TEST_CASE("otlp json: a span has hex ids, times as strings, kinds as numbers") {
  Span span;
  span.name = "chat demo";
  span.context = kContext;
  span.parent = 1;
  span.kind = SpanKind::kServer;
  span.start_unix_nanoseconds = 1'700'000'000'123'456'789;
  span.end_unix_nanoseconds = 1'700'000'000'123'456'790;
  span.tracestate = "a=1";
  const json read = span_of(span);
  CHECK(read.at("traceId") == "0af7651916cd43dd8448eb211c80319c");
  CHECK(read.at("spanId") == "b7ad6b7169203331");
  CHECK(read.at("parentSpanId") == "0000000000000001");
  CHECK(read.at("traceState") == "a=1");
  CHECK(read.at("kind") == 2);
  CHECK(read.at("startTimeUnixNano") == "1700000000123456789");
  CHECK(read.at("endTimeUnixNano") == "1700000000123456790");
  CHECK(read.at("flags") == 1);
  CHECK_FALSE(read.contains("status"));
  CHECK_FALSE(span_of({.name = "root", .context = kContext}).contains("parentSpanId"));
}

TEST_CASE("otlp json: attributes keep their types") {
  Span span{.name = "s", .context = kContext};
  span.attributes = {{"b", true},
                     {"i", std::int64_t{-5}},
                     {"d", 0.25},
                     {"s", std::string("text")},
                     {"l", std::vector<std::string>{"stop", "length"}}};
  const json attributes = span_of(span).at("attributes");
  CHECK(attributes.at(0).at("value").at("boolValue") == true);
  CHECK(attributes.at(1).at("value").at("intValue") == "-5");
  CHECK(attributes.at(2).at("value").at("doubleValue") == 0.25);
  CHECK(attributes.at(3).at("value").at("stringValue") == "text");
  CHECK(attributes.at(4).at("value").at("arrayValue").at("values").at(1).at("stringValue") == "length");
}

TEST_CASE("otlp json: numbers that JSON does not have are spelled as protobuf spells them") {
  Span span{.name = "s", .context = kContext};
  span.attributes = {{"nan", std::nan("")},
                     {"up", std::numeric_limits<double>::infinity()},
                     {"down", -std::numeric_limits<double>::infinity()}};
  const json attributes = span_of(span).at("attributes");
  CHECK(attributes.at(0).at("value").at("doubleValue") == "NaN");
  CHECK(attributes.at(1).at("value").at("doubleValue") == "Infinity");
  CHECK(attributes.at(2).at("value").at("doubleValue") == "-Infinity");
}

TEST_CASE("otlp json: events, links, counts of what was left out, and the status are there") {
  Span span{.name = "s", .context = kContext};
  span.events = {{.name = "first_token", .unix_nanoseconds = 7, .attributes = {{"n", std::int64_t{1}}}}};
  span.links = {kContext, kContext};
  span.num_dropped_events = 3;
  span.num_dropped_links = 4;
  span.status = SpanStatus::kError;
  span.status_message = "out of pages";
  const json read = span_of(span);
  CHECK(read.at("events").at(0).at("name") == "first_token");
  CHECK(read.at("events").at(0).at("timeUnixNano") == "7");
  CHECK(read.at("events").at(0).at("attributes").size() == 1);
  CHECK(read.at("droppedEventsCount") == 3);
  CHECK(read.at("links").size() == 2);
  CHECK(read.at("links").at(1).at("spanId") == "b7ad6b7169203331");
  CHECK(read.at("droppedLinksCount") == 4);
  CHECK(read.at("status").at("code") == 2);
  CHECK(read.at("status").at("message") == "out of pages");
}

TEST_CASE("otlp json: the resource says which service, the scope which version") {
  const json request = written({{.name = "a", .context = kContext}, {.name = "b", .context = kContext}});
  const json& resource = request.at("resourceSpans").at(0);
  CHECK(resource.at("resource").at("attributes").at(0).at("key") == "service.name");
  CHECK(resource.at("resource").at("attributes").at(0).at("value").at("stringValue") == "demo");
  CHECK(resource.at("scopeSpans").at(0).at("scope").at("version") == "1.2.3");
  CHECK(resource.at("scopeSpans").at(0).at("spans").size() == 2);
}

TEST_CASE("quoted text: whatever the bytes, what comes out is one line of valid JSON") {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const std::string cases[] = {
      every_byte,
      "\x1b[31mred\x1b[0m",  // what a terminal would obey
      "line\r\nX-Injected: yes",
      "\"},{\"level\":\"error",
      "\xC2\x9B"
      "31m",                            // CSI as one C1 character
      "caf\xC3\xA9 \xF0\x9F\x8E\xAD",   // fine as it is
      "\xC3",                           // cut in mid-character
      "\xC0\xAF \xE0\x80\xAF",          // overlong
      "\xED\xA0\x80 \xF4\x90\x80\x80",  // a surrogate, beyond the last character
  };
  for (const auto& text : cases) {
    std::string out;
    append_quoted(out, text);
    CHECK(out.find('\n') == std::string::npos);
    CHECK(out.find('\x1b') == std::string::npos);
    CHECK(out.find("\xC2\x9B") == std::string::npos);
    CHECK(json::accept(out));
  }
  std::string out;
  append_quoted(out, "caf\xC3\xA9\xFF");
  CHECK(out == "\"caf\xC3\xA9\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace troupe
