// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/link_clock.hpp"

#include <doctest/doctest.h>

namespace troupe {

using std::chrono::microseconds;
constexpr LinkClock::TimePoint kStart{};

TEST_CASE("link clock: a link as fast as memory takes no time") {
  LinkClock clock({});
  CHECK(clock.send(1 << 30, kStart + microseconds(5)) == kStart + microseconds(5));
}

TEST_CASE("link clock: a copy takes its bytes by the bandwidth, and the latency") {
  LinkClock clock({.bytes_per_second = 1'000'000, .latency = microseconds(7)});
  CHECK(clock.send(100, kStart) == kStart + microseconds(107));
}

TEST_CASE("link clock: copies queue for the bandwidth, not for the latency") {
  LinkClock clock({.bytes_per_second = 1'000'000, .latency = microseconds(50)});
  clock.send(100, kStart);
  CHECK(clock.send(100, kStart) == kStart + microseconds(250));
  // After a pause the link is free at once.
  CHECK(clock.send(100, kStart + microseconds(1000)) == kStart + microseconds(1150));
}

TEST_CASE("link clock: no link is so slow that time overflows") {
  LinkClock clock({.bytes_per_second = 1});
  LinkClock::TimePoint last = kStart;
  for (int i = 0; i < 1000; ++i) {
    const auto done = clock.send(SIZE_MAX, kStart);
    CHECK(done > last);
    last = done;
  }
}

}  // namespace troupe
