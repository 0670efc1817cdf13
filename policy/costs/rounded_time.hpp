// SPDX-License-Identifier: Apache-2.0
// Rounds times that costs add up to.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace troupe {

inline constexpr double kLongestTime = 1e15;  // nanoseconds, eleven days; longer times are no measurements

// A sum of costs may be far beyond what a clock counts; it is kLongestTime then.
inline std::chrono::nanoseconds rounded_time(double nanoseconds) {
  return std::chrono::nanoseconds(std::llround(std::min(nanoseconds, kLongestTime)));
}

}  // namespace troupe
