// SPDX-License-Identifier: Apache-2.0
// Erlang's rule: a part that dies more often than max_restarts times within a
// window is not restarted again; the failure climbs instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace troupe {

class RestartIntensity {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  RestartIntensity(std::uint32_t max_restarts, std::chrono::nanoseconds window)
      : max_restarts_(max_restarts), window_(window) {}

  // It died at `now`: may it be restarted?
  bool may_restart(TimePoint now);

 private:
  std::uint32_t max_restarts_;
  std::chrono::nanoseconds window_;
  std::deque<TimePoint> restarts_;
};

}  // namespace troupe
