// SPDX-License-Identifier: Apache-2.0
#include "policy/health/restart_intensity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

RestartIntensity::TimePoint at(nanoseconds time) { return RestartIntensity::TimePoint(time); }

TEST_CASE("restart_intensity: max_restarts deaths are forgiven, one more is not") {
  RestartIntensity intensity(2, seconds(60));
  CHECK(intensity.may_restart(at(seconds(0))));
  CHECK(intensity.may_restart(at(seconds(1))));
  CHECK_FALSE(intensity.may_restart(at(seconds(2))));
}

TEST_CASE("restart_intensity: a restart counts until the window is over, not a moment longer") {
  RestartIntensity intensity(1, seconds(60));
  CHECK(intensity.may_restart(at(seconds(5))));
  CHECK_FALSE(intensity.may_restart(at(seconds(65) - nanoseconds(1))));
  CHECK(intensity.may_restart(at(seconds(65))));
}

TEST_CASE("restart_intensity: the window slides, it does not start anew") {
  RestartIntensity intensity(2, seconds(60));
  CHECK(intensity.may_restart(at(seconds(0))));
  CHECK(intensity.may_restart(at(seconds(50))));
  CHECK(intensity.may_restart(at(seconds(60))));
  CHECK_FALSE(intensity.may_restart(at(seconds(109))));
  CHECK(intensity.may_restart(at(seconds(110))));
}

TEST_CASE("restart_intensity: a death that was not forgiven is no restart") {
  RestartIntensity intensity(1, seconds(60));
  CHECK(intensity.may_restart(at(seconds(0))));
  CHECK_FALSE(intensity.may_restart(at(seconds(59))));
  CHECK(intensity.may_restart(at(seconds(60))));
}

TEST_CASE("restart_intensity: all deaths may come at one moment") {
  RestartIntensity intensity(2, seconds(60));
  CHECK(intensity.may_restart(at(seconds(7))));
  CHECK(intensity.may_restart(at(seconds(7))));
  CHECK_FALSE(intensity.may_restart(at(seconds(7))));
}

TEST_CASE("restart_intensity: where no restart is allowed the first death is the last") {
  RestartIntensity intensity(0, seconds(60));
  CHECK_FALSE(intensity.may_restart(at(seconds(0))));
  CHECK_FALSE(intensity.may_restart(at(seconds(1000))));
}

TEST_CASE("restart_intensity: a death that is forgiven makes room for another") {
  RestartIntensity intensity(2, seconds(60));
  CHECK(intensity.may_restart(at(seconds(0)), 1));
  CHECK(intensity.may_restart(at(seconds(1)), 2));
  intensity.forgive(std::vector<std::uint64_t>{1, 5});
  CHECK(intensity.may_restart(at(seconds(2)), 3));
  CHECK_FALSE(intensity.may_restart(at(seconds(3)), 4));
  intensity.forgive(std::vector<std::uint64_t>{1});  // once is enough
  CHECK_FALSE(intensity.may_restart(at(seconds(4)), 5));
}

TEST_CASE("restart_intensity: no window ever holds more than max_restarts") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t max_restarts = static_cast<std::uint32_t>(random() % 4);
    const seconds window(1 + random() % 20);
    RestartIntensity intensity(max_restarts, window);
    std::vector<nanoseconds> granted;
    nanoseconds now{0};
    for (int death = 0; death < 100; ++death) {
      now += seconds(random() % 8);
      const auto num_recent = std::count_if(granted.begin(), granted.end(),
                                            [&](nanoseconds time) { return now - time < window; });
      const bool may_restart = intensity.may_restart(at(now));
      REQUIRE(may_restart == (num_recent < max_restarts));
      if (may_restart) granted.push_back(now);
    }
  }
}

}  // namespace
}  // namespace troupe
