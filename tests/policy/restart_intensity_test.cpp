// SPDX-License-Identifier: Apache-2.0
#include "policy/restart_intensity.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::seconds;

RestartIntensity::TimePoint at(int second) { return RestartIntensity::TimePoint(seconds(second)); }

TEST_CASE("restarts: so many within the window, then no more") {
  RestartIntensity intensity(2, seconds(10));
  CHECK(intensity.may_restart(at(0)));
  CHECK(intensity.may_restart(at(1)));
  CHECK_FALSE(intensity.may_restart(at(9)));
}

TEST_CASE("restarts: what lies a window back is forgiven") {
  RestartIntensity intensity(2, seconds(10));
  CHECK(intensity.may_restart(at(0)));
  CHECK(intensity.may_restart(at(5)));
  CHECK(intensity.may_restart(at(10)));
  CHECK_FALSE(intensity.may_restart(at(14)));
  CHECK(intensity.may_restart(at(15)));
}

TEST_CASE("restarts: none allowed, none given") {
  RestartIntensity intensity(0, seconds(10));
  CHECK_FALSE(intensity.may_restart(at(0)));
}

}  // namespace
}  // namespace troupe
