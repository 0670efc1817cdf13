// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <limits>

namespace troupe::loadgen {

// The latency of a request that was not answered; infinite in other units.
inline constexpr std::chrono::nanoseconds kEndless = std::chrono::nanoseconds::max();

inline double in_seconds(std::chrono::nanoseconds time) {
  if (time == kEndless) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double>(time).count();
}

inline double in_milliseconds(std::chrono::nanoseconds time) {
  if (time == kEndless) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace troupe::loadgen
