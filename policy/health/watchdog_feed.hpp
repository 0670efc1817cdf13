// SPDX-License-Identifier: Apache-2.0
// Decides when a service manager's watchdog is fed: only after the engine's actors have
// given a sign since the last time, and only while nothing keeps tokens from moving. A
// thread that merely runs feeds nothing.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

// One thread.
class WatchdogFeed {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // limit: time without food after which the process is ended; 0: there is no watchdog.
  // It is fed three times within it.
  WatchdogFeed(std::chrono::microseconds limit, TimePoint now);

  // A feed is due: the engine is to be asked for a sign, though it may have nothing to do.
  bool wants_sign(TimePoint now) const;

  // num_signs: that the engine has ever given. is_stuck: its device or its actors hang.
  // True: to be fed now.
  bool is_due(TimePoint now, std::uint64_t num_signs, bool is_stuck) const;

  // It was fed, on is_due(). Without this it stays due.
  void note_fed(TimePoint now, std::uint64_t num_signs);

 private:
  const std::chrono::microseconds limit_;
  TimePoint fed_at_;
  std::uint64_t num_signs_fed_ = 0;
};

}  // namespace troupe
