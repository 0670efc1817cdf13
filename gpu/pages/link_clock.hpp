// SPDX-License-Identifier: Apache-2.0
// The model of a link between device and host memory, so that experiments on
// the CPU backend imitate PCIe: a copy is not done before the link would have
// done it. The link is full duplex: loads and stores have a clock each.
//
//   done = max(ready, link free) + bytes / bandwidth + latency
//
// Latency does not occupy the link: the next copy begins meanwhile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe {

struct LinkSettings {
  std::uint64_t bytes_per_second = 0;  // in each direction; 0: as fast as memory
  std::chrono::microseconds latency{0};
};

// One direction. Not thread-safe.
class LinkClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit LinkClock(const LinkSettings& settings) : settings_(settings) {}

  // When a copy is done that could begin at `ready`, behind those before it.
  TimePoint send(std::size_t num_bytes, TimePoint ready);

 private:
  LinkSettings settings_;
  TimePoint free_at_{};
};

}  // namespace troupe
