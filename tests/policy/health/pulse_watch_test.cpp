// SPDX-License-Identifier: Apache-2.0
#include "policy/health/pulse_watch.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Finding = PulseWatch::Finding;

constexpr PulseWatch::TimePoint kStart{seconds(100)};

TEST_CASE("pulse watch: one sign is asked for at a time, and only where it is wanted") {
  PulseWatch watch;
  CHECK(!watch.look(kStart, 0, false).ask);
  CHECK(watch.look(kStart, 0, true).ask == 1);
  CHECK(!watch.look(kStart + seconds(1), 0, true).ask);
  CHECK(watch.look(kStart + seconds(2), 1, true).ask == 2);
}

TEST_CASE("pulse watch: without an answer the pulse is lost after ten seconds, hope after a minute") {
  PulseWatch watch;
  for (int i = 0; i < 400; ++i) {
    const auto time = milliseconds(200) * i;
    const Finding expected = time < seconds(10)   ? Finding::kFine
                             : time < seconds(60) ? Finding::kLost
                                                  : Finding::kHopeless;
    REQUIRE(watch.look(kStart + time, 0, true).finding == expected);
  }
  CHECK(watch.look(kStart + seconds(90), 1, false).finding == Finding::kFine);
}

TEST_CASE("pulse watch: time in which nobody looked does not count") {
  PulseWatch watch;
  watch.look(kStart, 0, true);
  CHECK(watch.look(kStart + hours(1), 0, true).finding == Finding::kFine);
}

}  // namespace
}  // namespace troupe
