// SPDX-License-Identifier: Apache-2.0
// Durations as metrics and spans have them.
#pragma once

#include <chrono>

namespace troupe {

inline double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace troupe
