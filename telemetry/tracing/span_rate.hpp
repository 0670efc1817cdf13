// SPDX-License-Identifier: Apache-2.0
// At most so many spans a second of a kind that may come by the ten thousand:
// a token bucket that holds one second's worth.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace troupe {

// One thread.
class SpanRate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit SpanRate(std::uint32_t max_per_second) : rate_(max_per_second), available_(rate_) {}

  // Is there room for one more? now: never earlier than in the call before.
  bool has_room(TimePoint now) {
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    available_ = std::min(rate_, available_ + seconds * rate_);
    refilled_ = now;
    return available_ >= 1.0;
  }
  // One has been taken.
  void take() { available_ -= 1.0; }

 private:
  double rate_;
  double available_;
  TimePoint refilled_;
};

}  // namespace troupe
