// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/link_clock.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Longer than any copy anybody waits for; the clock cannot overflow.
constexpr std::chrono::hours kLongestCopy{1};

}  // namespace

LinkClock::TimePoint LinkClock::send(std::size_t num_bytes, TimePoint ready) {
  free_at_ = std::max(free_at_, ready);
  if (settings_.bytes_per_second > 0) {
    const std::chrono::duration<double> time(static_cast<double>(num_bytes) /
                                             static_cast<double>(settings_.bytes_per_second));
    free_at_ += time < kLongestCopy ? std::chrono::duration_cast<std::chrono::nanoseconds>(time)
                                    : std::chrono::nanoseconds(kLongestCopy);
  }
  return free_at_ + settings_.latency;
}

}  // namespace troupe
