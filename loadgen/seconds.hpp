// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace troupe::loadgen {

inline double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

inline double in_milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace troupe::loadgen
