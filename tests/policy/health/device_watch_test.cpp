// SPDX-License-Identifier: Apache-2.0
#include "policy/health/device_watch.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Finding = DeviceWatch::Finding;
using TimePoint = DeviceWatch::TimePoint;

constexpr TimePoint kStart{seconds(100)};

// How long a batch of so many tokens may take until the finding, with a look every
// quarter of a second.
nanoseconds time_until(Finding finding, DeviceWatch watch, std::uint32_t num_tokens) {
  for (TimePoint now = kStart;; now += milliseconds(250))
    if (watch.look(now, kStart, num_tokens) == finding) return now - kStart;
}

TEST_CASE("device watch: a device is found to hang within ten seconds and the longest step of late") {
  DeviceWatch watch;
  watch.take_finished(8, seconds(1));
  const auto found = time_until(Finding::kHangs, watch, 8);
  CHECK(found > seconds(9));
  CHECK(found <= seconds(11));
  CHECK(time_until(Finding::kHopeless, watch, 8) == found + kLastPatience);
}

TEST_CASE("device watch: nothing is known of a device's first batch, nor of one far larger than all before") {
  DeviceWatch watch;
  CHECK(watch.longest_step(1) == kUnknownStep);
  watch.take_finished(8, milliseconds(10));
  CHECK(watch.longest_step(32) == milliseconds(40));
  CHECK(watch.longest_step(33) == kUnknownStep);
  watch.start();
  CHECK(watch.longest_step(8) == kUnknownStep);
}

TEST_CASE("device watch: a larger batch may take longer in proportion, a smaller one as long") {
  DeviceWatch watch;
  watch.take_finished(100, seconds(2));
  CHECK(watch.longest_step(200) == seconds(4));
  CHECK(watch.longest_step(1) == seconds(2));
}

TEST_CASE("device watch: one slow batch is forgotten with time") {
  DeviceWatch watch;
  watch.take_finished(1, seconds(50));
  for (int i = 0; i < 300; ++i) watch.take_finished(1, milliseconds(10));
  CHECK(watch.longest_step(1) < seconds(1));
}

TEST_CASE("device watch: time in which nobody looked does not count") {
  DeviceWatch watch;
  watch.take_finished(8, milliseconds(10));
  CHECK(watch.look(kStart + milliseconds(250), kStart, 8) == Finding::kFine);
  CHECK(watch.look(kStart + hours(1), kStart, 8) == Finding::kFine);
  // It hangs indeed: nine seconds more, watched.
  Finding finding = Finding::kFine;
  for (int i = 1; i <= 36; ++i) finding = watch.look(kStart + hours(1) + milliseconds(250) * i, kStart, 8);
  CHECK(finding == Finding::kHangs);
}

TEST_CASE("device watch: another batch is another wait") {
  DeviceWatch watch;
  watch.take_finished(8, milliseconds(10));
  TimePoint now = kStart;
  for (int i = 0; i < 400; ++i, now += milliseconds(250))
    REQUIRE(watch.look(now, kStart + (now - kStart) / seconds(5) * seconds(5), 8) == Finding::kFine);
}

}  // namespace
}  // namespace troupe
