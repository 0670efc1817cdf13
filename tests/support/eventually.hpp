// SPDX-License-Identifier: Apache-2.0
// Waits for what another thread or process does, and not for ever.
#pragma once

#include <chrono>
#include <thread>

namespace troupe::test {

// Whether the condition held within the limit. It is asked about every millisecond.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition,
                              std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace troupe::test
