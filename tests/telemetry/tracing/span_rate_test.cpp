// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/span_rate.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::milliseconds;

int num_taken(SpanRate& rate, SpanRate::TimePoint from, int count, std::chrono::microseconds gap) {
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    if (!rate.has_room(from + i * gap)) continue;
    rate.take();
    ++taken;
  }
  return taken;
}

TEST_CASE("span rate: what comes seldom enough is all taken") {
  SpanRate rate(100);
  CHECK(num_taken(rate, SpanRate::TimePoint(milliseconds(5)), 1000, milliseconds(10)) == 1000);
}

TEST_CASE("span rate: of more, one second's worth at first and then the rate") {
  SpanRate rate(100);
  // Ten seconds of a thousand a second.
  const int taken = num_taken(rate, SpanRate::TimePoint(milliseconds(5)), 10'000, milliseconds(1));
  CHECK(taken >= 100 + 990);
  CHECK(taken <= 100 + 1000);
}

TEST_CASE("span rate: none is none") {
  SpanRate rate(0);
  CHECK(num_taken(rate, SpanRate::TimePoint(milliseconds(5)), 1000, milliseconds(1)) == 0);
}

}  // namespace
}  // namespace troupe
