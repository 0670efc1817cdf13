// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/recent_spans.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "telemetry/tracing/semantic_conventions.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {
namespace {

SpanTree request(const std::string& name, std::int64_t ended = 1) {
  std::vector<Span> spans(2);
  spans[0].name = name;
  spans[0].end_unix_nanoseconds = ended;
  return std::make_shared<const std::vector<Span>>(std::move(spans));
}

std::string names(const RecentSpans& recent, const RecentQuery& query = {}) {
  std::string names;
  for (const auto& tree : recent.find(query)) names += tree->front().name + " ";
  return names;
}

constexpr std::size_t kPlenty = 1 << 20;

TEST_CASE("recent spans: the oldest request makes room") {
  RecentSpans recent(3, kPlenty);
  for (const char* name : {"a", "b", "c", "d", "e"}) recent.add("", request(name));
  CHECK(names(recent) == "c d e ");
  CHECK(names(recent, {.limit = 2}) == "d e ");
}

TEST_CASE("recent spans: bytes are bounded, and a request larger than all room pushes out none") {
  const std::size_t one = count_bytes(*request("a"));
  RecentSpans recent(100, 3 * (one + 200));
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) recent.add("", request(name));
  CHECK(names(recent) == "d e f ");
  recent.add("", request(std::string(8 * one, 'x')));
  CHECK(names(recent) == "d e f ");
  recent.add("", request("y" + std::string(one, 'y')));
  CHECK(names(recent).starts_with("f y"));
}

TEST_CASE("recent spans: a tenant is told of its own requests alone") {
  RecentSpans recent(10, kPlenty);
  recent.add("red", request("a"));
  recent.add("blue", request("b"));
  recent.add("", request("c"));
  CHECK(names(recent, {.tenant = "red"}) == "a ");
  CHECK(names(recent, {.tenant = ""}) == "c ");
  CHECK(names(recent, {.tenant = "re"}) == "");
  CHECK(names(recent) == "a b c ");
}

TEST_CASE("recent spans: those that ended after a time are told apart from the others") {
  RecentSpans recent(10, kPlenty);
  recent.add("", request("a", 10));
  recent.add("", request("b", 20));
  CHECK(names(recent, {.ended_after = 10}) == "b ");
  CHECK(names(recent, {.ended_after = 20}) == "");
}

TEST_CASE("recent spans: a tracer without a destination samples nothing and keeps requests") {
  Metrics metrics("m");
  Tracer tracer({.max_recent_requests = 2}, metrics, {});
  CHECK(!tracer.samples({.high = 1, .low = 0}));
  CHECK(tracer.max_iterations_per_second() == 0);
  tracer.record_request("red", *request("a"), false);
  tracer.record(*request("refused"));
  CHECK(names(tracer.recent()) == "a ");
  Tracer none({}, metrics, {});
  none.record_request("red", *request("a"), false);
  CHECK(names(none.recent()) == "");
}

TEST_CASE("recent spans: texts, and ids that lead to them, are not among them") {
  Metrics metrics("m");
  Tracer tracer({.capture = {.in_attributes = true, .in_event = true}, .max_recent_requests = 2}, metrics,
                {});
  std::vector<Span> spans = *request("a");
  spans[0].attributes = {{semconv::kInputMessages, std::string("secret")},
                         {semconv::kRequestId, std::string("req-1")},
                         {semconv::kResponseId, std::string("resp_1")},
                         {semconv::kOutputMessages, std::string("secret")}};
  spans[0].events = {{.name = semconv::kDetailsEvent, .attributes = spans[0].attributes}};
  tracer.record_request("", std::move(spans), true);
  const Span& kept = tracer.recent().find({}).front()->front();
  REQUIRE(kept.events.size() == 1);
  for (const auto& attributes : {kept.attributes, kept.events[0].attributes}) {
    REQUIRE(attributes.size() == 1);
    CHECK(attributes[0].key == semconv::kRequestId);
  }
}

}  // namespace
}  // namespace troupe
