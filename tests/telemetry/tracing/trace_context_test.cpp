// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/trace_context.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

namespace troupe {
namespace {

const std::string kExample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST_CASE("trace context: the W3C's example is read and written back") {
  const auto context = parse_traceparent(kExample);
  REQUIRE(context);
  CHECK(hex_of(context->trace) == "0af7651916cd43dd8448eb211c80319c");
  CHECK(hex_of(context->span) == "b7ad6b7169203331");
  CHECK(context->is_sampled);
  CHECK(format_traceparent(*context) == kExample);
}

TEST_CASE("trace context: only the lowest flag means sampled") {
  std::string header = kExample;
  for (const char* flags : {"00", "02", "fe"}) {
    CHECK_FALSE(parse_traceparent(header.replace(53, 2, flags))->is_sampled);
  }
  CHECK(parse_traceparent(header.replace(53, 2, "ff"))->is_sampled);
}

TEST_CASE("trace context: a later version is read as far as version 00 goes") {
  std::string header = kExample;
  header.replace(0, 2, "cc");
  CHECK(parse_traceparent(header));
  CHECK(parse_traceparent(header + "-what-comes-later"));
  CHECK_FALSE(parse_traceparent(header + "what-comes-later"));
  CHECK_FALSE(parse_traceparent(kExample + "-00"));  // version 00 has no more
}

TEST_CASE("trace context: anything else is as good as none") {
  const auto with = [](std::size_t at, const char* text) {
    std::string header = kExample;
    return header.replace(at, std::string(text).size(), text);
  };
  const std::string cases[] = {
      "",
      "00",
      with(0, "ff"),  // the version that never is
      with(0, "0g"),
      with(2, "_"),
      with(35, "_"),
      with(52, "_"),
      with(3, "00000000000000000000000000000000"),  // all-zero trace id
      with(36, "0000000000000000"),                 // all-zero span id
      with(3, "0AF7"),                              // upper case
      with(10, " "),
      with(10, "\n"),
      with(53, "0x"),
      kExample.substr(0, 54),
      " " + kExample,
      kExample + " ",
      std::string(55, '-'),
      std::string(55, '\0'),
      std::string(100'000, '0'),
  };
  for (const auto& text : cases) {
    CAPTURE(text);
    CHECK_FALSE(parse_traceparent(text));
  }
}

TEST_CASE("trace context: tracestate is passed on if it is a list of names and values") {
  for (const char* good : {"", "rojo=00f067aa0ba902b7", "a=1,b=2", "a=1 , b=2", "a=1,,b=2",
                           "tenant@vendor=x:y;z", "congo=t61rcWkgMzE"}) {
    CAPTURE(good);
    CHECK(checked_tracestate(good) == good);
  }
  std::string many;
  for (int i = 0; i < 33; ++i) many += "k" + std::to_string(i) + "=v,";
  for (const std::string& bad : {std::string("a"), std::string("=1"), std::string("a="), std::string("A=1"),
                                 std::string("a=1=2"), std::string("a=\x01"), std::string("a=\xC3\xA9"),
                                 std::string("a=1\nb=2"), many, "a=" + std::string(600, 'x')}) {
    CAPTURE(bad);
    CHECK(checked_tracestate(bad).empty());
  }
}

TEST_CASE("trace context: ids drawn are valid, all different, and use all their bits") {
  std::set<TraceId> traces;
  std::set<SpanId> spans;
  TraceId set{}, clear{};
  constexpr int kDrawn = 20'000;
  for (int i = 0; i < kDrawn; ++i) {
    const TraceId trace = draw_trace_id();
    CHECK(trace.is_valid());
    set.high |= trace.high;
    set.low |= trace.low;
    clear.high |= ~trace.high;
    clear.low |= ~trace.low;
    traces.insert(trace);
    spans.insert(draw_span_id());
  }
  CHECK(traces.size() == kDrawn);
  CHECK(spans.size() == kDrawn);
  CHECK_FALSE(spans.contains(0));
  for (const TraceId& seen : {set, clear}) {
    CHECK(seen.high == UINT64_MAX);
    CHECK(seen.low == UINT64_MAX);
  }
}

TEST_CASE("trace context: no id follows from one that was drawn before") {
  // A counter behind splitmix64, however well mixed, can be read backwards.
  const auto unmixed = [](std::uint64_t z) {
    const auto unshift = [](std::uint64_t y, int bits) {
      std::uint64_t x = y;
      for (int i = bits; i < 64; i += bits) x = y ^ (x >> bits);
      return x;
    };
    z = unshift(z, 31) * 0x319642B2D24D8EC3ULL;
    z = unshift(z, 27) * 0x96DE1B173F119089ULL;
    return unshift(z, 30);
  };
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  REQUIRE(unmixed(0xE220A8397B1DCDAFULL) == kStep);  // splitmix64's first, from 0
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t first = unmixed(draw_span_id());
    const std::uint64_t second = unmixed(draw_span_id());
    for (std::uint64_t steps = 1; steps <= 4; ++steps) CHECK(second - first != steps * kStep);
  }
}

TEST_CASE("trace context: a share of the traces is sampled, the same ones everywhere") {
  for (const double ratio : {0.0, 0.1, 0.5, 1.0}) {
    int num_sampled = 0;
    constexpr int kDrawn = 20'000;
    for (int i = 0; i < kDrawn; ++i) num_sampled += is_in_ratio(draw_trace_id(), ratio) ? 1 : 0;
    // Five standard deviations of a binomial distribution at most.
    CHECK(std::abs(num_sampled - ratio * kDrawn) <= 360);
  }
  // OpenTelemetry's rule: the last 56 bits are not below (1 - ratio) * 2^56.
  const auto at = [](std::uint64_t low) { return TraceId{.high = 1, .low = low}; };
  CHECK_FALSE(is_in_ratio(at(0xFF7FFFFFFFFFFFFFULL), 0.5));
  CHECK(is_in_ratio(at(0x0080000000000000ULL), 0.5));
  CHECK_FALSE(is_in_ratio(at(UINT64_MAX), 0.0));
  CHECK(is_in_ratio(at(0), 1.0));
}

}  // namespace
}  // namespace troupe
