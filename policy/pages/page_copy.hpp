// SPDX-License-Identifier: Apache-2.0
// One KV page on its way between a device and the host: PageCache decides it, a
// batch carries it, the device does it, over a socket where that is in another
// process. A plain value.
#pragma once

#include <cstdint>

namespace troupe {

// A device with pages of its own. Small numbers, used again.
using WorkerIndex = std::uint32_t;

// Done by the device in the order in which they were queued. Devices keep no order
// among themselves.
struct PageCopy {
  enum class Direction : std::uint8_t {
    kLoad,    // from the host
    kStore,   // to the host
    kWithin,  // from another page of the device
  };
  using enum Direction;

  Direction direction = kLoad;
  std::uint32_t device_page = 0;
  std::uint32_t host_page = 0;  // of a load or a store
  std::uint32_t from_page = 0;  // within: the device page that is read
  // Generation of the contents, in a load or a store. No other contents ever had the
  // same.
  std::uint64_t generation = 0;

  bool is_load() const { return direction == kLoad; }
  bool is_store() const { return direction == kStore; }
  bool is_within() const { return direction == kWithin; }
  bool operator==(const PageCopy&) const = default;
};

}  // namespace troupe
