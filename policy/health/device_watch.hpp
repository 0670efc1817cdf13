// SPDX-License-Identifier: Apache-2.0
// Tells a device that hangs from one that has much to do. A batch may take as
// long as the longest of late, in proportion if it has more tokens than any
// before, and kPatience beyond that. Nothing is known of a device's first batch,
// nor of one far larger than all before: these get kUnknownStep.
#pragma once

#include <chrono>
#include <cstdint>

#include "policy/health/watched_time.hpp"

namespace troupe {

// With the looks between, a device that hangs is found out within 10 s and a step.
inline constexpr std::chrono::seconds kPatience{9};
inline constexpr std::chrono::seconds kUnknownStep{120};
// Beyond the first finding: so long a device may take to come back, or to be ended.
inline constexpr std::chrono::seconds kLastPatience{50};

class DeviceWatch {
 public:
  using TimePoint = WatchedTime::TimePoint;
  enum class Finding : std::uint8_t {
    kFine,
    kHangs,
    kHopeless,  // it has hung for kLastPatience
  };

  // A new device: what was learned of the last one is kept.
  void start() { has_finished_one_ = false; }

  void take_finished(std::uint32_t num_tokens, std::chrono::nanoseconds time);

  // The device has worked on a batch of so many tokens since `since`. Look about
  // every quarter of a second.
  Finding look(TimePoint now, TimePoint since, std::uint32_t num_tokens);

  // How long such a batch may take.
  std::chrono::nanoseconds longest_step(std::uint32_t num_tokens) const;

 private:
  friend class Fingerprint;
  WatchedTime silence_{std::chrono::seconds(1)};
  double longest_nanoseconds_ = 0.0;  // of late
  std::uint32_t most_tokens_ = 0;     // of all batches
  bool has_finished_one_ = false;
};

}  // namespace troupe
