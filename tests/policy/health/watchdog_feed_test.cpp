// SPDX-License-Identifier: Apache-2.0
#include "policy/health/watchdog_feed.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using std::chrono::seconds;

namespace {

const WatchdogFeed::TimePoint kStart{seconds(1000)};

// It is fed if that is due.
bool looks(WatchdogFeed& feed, WatchdogFeed::TimePoint now, std::uint64_t num_signs, bool is_stuck) {
  if (!feed.is_due(now, num_signs, is_stuck)) return false;
  feed.note_fed(now, num_signs);
  return true;
}

}  // namespace

TEST_CASE("watchdog: it is fed three times within its limit while signs come") {
  WatchdogFeed feed(seconds(30), kStart);
  CHECK_FALSE(feed.wants_sign(kStart + seconds(9)));
  CHECK_FALSE(looks(feed, kStart + seconds(9), 1, false));
  CHECK(feed.wants_sign(kStart + seconds(10)));
  CHECK(looks(feed, kStart + seconds(10), 1, false));
  CHECK_FALSE(looks(feed, kStart + seconds(19), 2, false));
  CHECK(looks(feed, kStart + seconds(20), 2, false));
}

TEST_CASE("watchdog: without a new sign it is not fed, however long the thread goes on") {
  WatchdogFeed feed(seconds(30), kStart);
  REQUIRE(looks(feed, kStart + seconds(10), 7, false));
  for (int i = 20; i < 200; ++i) {
    CHECK(feed.wants_sign(kStart + seconds(i)));
    CHECK_FALSE(looks(feed, kStart + seconds(i), 7, false));
  }
  CHECK(looks(feed, kStart + seconds(200), 8, false));
}

TEST_CASE("watchdog: actors that answer do not feed it while the device hangs") {
  WatchdogFeed feed(seconds(30), kStart);
  CHECK_FALSE(looks(feed, kStart + seconds(10), 1, true));
  CHECK_FALSE(looks(feed, kStart + seconds(20), 2, true));
  CHECK(looks(feed, kStart + seconds(21), 2, false));
}

TEST_CASE("watchdog: where there is none, no sign is wanted and nothing is fed") {
  WatchdogFeed feed(seconds(0), kStart);
  CHECK_FALSE(feed.wants_sign(kStart + seconds(100)));
  CHECK_FALSE(looks(feed, kStart + seconds(100), 5, false));
}

TEST_CASE("watchdog: what could not be sent has not fed it") {
  WatchdogFeed feed(seconds(30), kStart);
  REQUIRE(feed.is_due(kStart + seconds(10), 1, false));
  CHECK(feed.wants_sign(kStart + seconds(11)));
  CHECK(looks(feed, kStart + seconds(11), 1, false));
  CHECK_FALSE(feed.is_due(kStart + seconds(12), 2, false));
}
