// SPDX-License-Identifier: Apache-2.0
// How long something has been awaited, as seen by looking again and
// again. A look that comes late, because this process or the whole machine stood
// still, adds no more than the longest step: time in which nothing could be done does
// not count.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace troupe {

class WatchedTime {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit WatchedTime(std::chrono::nanoseconds longest_step) : longest_step_(longest_step) {}

  // Awaited since `since`: another `since` is another wait. The time so far.
  std::chrono::nanoseconds look(TimePoint now, TimePoint since) {
    const TimePoint last = since == since_ ? last_look_ : since;
    if (since != since_) total_ = std::chrono::nanoseconds(0);
    total_ += std::clamp<std::chrono::nanoseconds>(now - last, std::chrono::nanoseconds(0), longest_step_);
    since_ = since;
    last_look_ = now;
    return total_;
  }

 private:
  friend class Fingerprint;
  std::chrono::nanoseconds longest_step_;
  std::chrono::nanoseconds total_{0};
  std::optional<TimePoint> since_;
  TimePoint last_look_;
};

}  // namespace troupe
