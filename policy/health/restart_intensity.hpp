// SPDX-License-Identifier: Apache-2.0
// Erlang's rule: a part that dies more often than max_restarts times within a
// window is not restarted again; the failure climbs instead. A death whose cause
// has been done away with can be forgiven.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>

namespace troupe {

class RestartIntensity {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  RestartIntensity(std::uint32_t max_restarts, std::chrono::nanoseconds window)
      : max_restarts_(max_restarts), window_(window) {}

  // It died at `now`: may it be restarted? death: a number to forgive it by.
  bool may_restart(TimePoint now, std::uint64_t death = 0);
  // They count no more, but do not bring back what was not restarted.
  void forgive(std::span<const std::uint64_t> deaths);

 private:
  struct Restart {
    TimePoint time;
    std::uint64_t death = 0;
  };

  std::uint32_t max_restarts_;
  std::chrono::nanoseconds window_;
  std::deque<Restart> restarts_;
};

}  // namespace troupe
