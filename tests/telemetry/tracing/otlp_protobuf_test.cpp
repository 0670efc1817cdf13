// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_protobuf.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "telemetry/tracing/otlp_json.hpp"
#include "tests/support/observability/protobuf_reader.hpp"
#include "tests/support/observability/received_span.hpp"

namespace troupe {
namespace {

using test::ProtobufMessage;

constexpr TraceContext kContext{.trace = {.high = 0x0af7651916cd43ddULL, .low = 0x8448eb211c80319cULL},
                                .span = 0xb7ad6b7169203331ULL,
                                .is_sampled = true};

Span full_span() {
  Span span{.name = "chat demo", .context = kContext, .parent = 1, .tracestate = "a=1"};
  span.kind = SpanKind::kServer;
  span.start_unix_nanoseconds = 1'700'000'000'123'456'789;
  span.end_unix_nanoseconds = 1'700'000'000'123'456'790;
  span.attributes = {{"b", true},
                     {"i", std::int64_t{-5}},
                     {"d", 0.25},
                     {"s", std::string("text")},
                     {"l", std::vector<std::string>{"stop", "length"}}};
  span.events = {{.name = "first_token", .unix_nanoseconds = 7, .attributes = {{"n", std::int64_t{1}}}}};
  span.links = {kContext, {.trace = {.high = 0, .low = 1}, .span = 2}};
  span.num_dropped_events = 3;
  span.num_dropped_links = 4;
  span.status = SpanStatus::kError;
  span.status_message = "out of pages";
  return span;
}

std::string written(std::vector<Span> spans) {
  const OtlpProtobuf format(
      {.service_name = "demo", .version = "1.2.3", .more = {{"host.name", std::string("h")}}});
  return format.request_of({std::make_shared<const std::vector<Span>>(std::move(spans))});
}

ProtobufMessage span_of(Span span) {
  return ProtobufMessage(written({std::move(span)})).messages(1).at(0).messages(2).at(0).messages(2).at(0);
}

ProtobufMessage value_of(AttributeValue value) {
  Span span{.name = "s", .context = kContext};
  span.attributes = {{"key", std::move(value)}};
  return span_of(std::move(span)).messages(9).at(0).messages(2).at(0);
}

TEST_CASE("otlp protobuf: a span has binary ids, fixed times, and each field under its number") {
  const ProtobufMessage span = span_of(full_span());
  CHECK(span.text(1) == "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c");
  CHECK(span.text(2) == "\xb7\xad\x6b\x71\x69\x20\x33\x31");
  CHECK(span.text(3) == "a=1");
  CHECK(span.text(4) == std::string(7, '\0') + '\1');
  CHECK(span.text(5) == "chat demo");
  CHECK(span.number(6) == 2);
  CHECK(span.fixed(7) == 1'700'000'000'123'456'789);
  CHECK(span.fixed(8) == 1'700'000'000'123'456'790);
  CHECK(span.messages(9).size() == 5);
  const ProtobufMessage event = span.messages(11).at(0);
  CHECK(event.fixed(1) == 7);
  CHECK(event.text(2) == "first_token");
  CHECK(event.messages(3).size() == 1);
  CHECK(span.number(12) == 3);
  CHECK(span.messages(13).at(1).text(1) == std::string(15, '\0') + '\1');
  CHECK(span.messages(13).at(1).text(2) == std::string(7, '\0') + '\2');
  CHECK(span.number(14) == 4);
  CHECK(span.messages(15).at(0).text(2) == "out of pages");
  CHECK(span.messages(15).at(0).number(3) == 2);
  CHECK(span.fixed(16) == 1);
}

TEST_CASE("otlp protobuf: a root that went well has neither parent nor status") {
  const ProtobufMessage span = span_of({.name = "root", .context = kContext});
  for (const int field : {3, 4, 9, 11, 12, 13, 14, 15}) {
    CAPTURE(field);
    CHECK_FALSE(span.has(field));
  }
}

TEST_CASE("otlp protobuf: attributes keep their types, also where the value is the type's default") {
  CHECK(value_of(std::string("text")).text(1) == "text");
  CHECK(value_of(true).number(2) == 1);
  CHECK(static_cast<std::int64_t>(value_of(std::int64_t{-5}).number(3)) == -5);
  CHECK(value_of(0.25).real(4) == 0.25);
  CHECK(std::isnan(value_of(std::nan("")).real(4)));
  CHECK(value_of(-std::numeric_limits<double>::infinity()).real(4) ==
        -std::numeric_limits<double>::infinity());
  const auto list = value_of(std::vector<std::string>{"stop", "length"}).messages(5).at(0).messages(1);
  CHECK(list.at(1).text(1) == "length");
  CHECK(value_of(std::string()).has(1));
  CHECK(value_of(false).has(2));
  CHECK(value_of(std::int64_t{0}).has(3));
  CHECK(value_of(0.0).has(4));
  CHECK(value_of(std::vector<std::string>{}).has(5));
}

TEST_CASE("otlp protobuf: text that is no UTF-8 does not make the whole request malformed") {
  CHECK(value_of(std::string("caf\xC3\xA9 \xFF")).text(1) == "caf\xC3\xA9 \xEF\xBF\xBD");
  Span span{.name = "\xC3", .context = kContext};
  span.status = SpanStatus::kError;
  span.status_message = "\xED\xA0\x80";
  const ProtobufMessage read = span_of(span);
  CHECK(read.text(5) == "\xEF\xBF\xBD");
  CHECK(read.messages(15).at(0).text(2) == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("otlp protobuf: the resource says which service, the scope which version") {
  const ProtobufMessage request(
      written({{.name = "a", .context = kContext}, {.name = "b", .context = kContext}}));
  const ProtobufMessage resource_spans = request.messages(1).at(0);
  const auto attributes = resource_spans.messages(1).at(0).messages(1);
  REQUIRE(attributes.size() == 3);
  CHECK(attributes[0].text(1) == "service.name");
  CHECK(attributes[0].messages(2).at(0).text(1) == "demo");
  CHECK(attributes[2].text(1) == "host.name");
  const ProtobufMessage scope_spans = resource_spans.messages(2).at(0);
  CHECK(scope_spans.messages(1).at(0).text(1) == "troupe");
  CHECK(scope_spans.messages(1).at(0).text(2) == "1.2.3");
  CHECK(scope_spans.messages(2).size() == 2);
  CHECK(scope_spans.text(3).starts_with("https://opentelemetry.io/schemas/"));
}

TEST_CASE("otlp protobuf: it says what the JSON says") {
  const TraceSource source{.service_name = "demo", .version = "1.2.3"};
  const std::vector<SpanTree> trees = {std::make_shared<const std::vector<Span>>(std::vector<Span>{
                                           full_span(), {.name = "b", .context = kContext}}),
                                       std::make_shared<const std::vector<Span>>(1, full_span())};
  const auto from_json = test::parse_spans(nlohmann::json::parse(OtlpJson(source).request_of(trees)));
  CHECK(from_json.size() == 3);
  CHECK(test::parse_protobuf_spans(OtlpProtobuf(source).request_of(trees)) == from_json);
}

}  // namespace
}  // namespace troupe
