// SPDX-License-Identifier: Apache-2.0
// The numbers that metrics, and the choice of a worker, are told of KV pages: how many are where now, and
// how often they moved or were dropped since the beginning.
#pragma once

#include <cstdint>

namespace troupe {

struct PageCounts {
  std::uint32_t total = 0, free = 0, cached = 0, running = 0;  // on devices
  std::uint32_t host_total = 0, host_free = 0;
  std::uint32_t disk_total = 0, disk_free = 0;

  PageCounts& operator+=(const PageCounts& other);
};

struct PageCacheStatistics {
  std::uint64_t heads = 0;                // pages of which a part was copied
  std::uint64_t stored = 0;               // copies to the host
  std::uint64_t loaded = 0;               // copies from the host
  std::uint64_t reclaimed = 0;            // device pages given away, their host page kept
  std::uint64_t dropped_from_device = 0;  // for want of room on the host
  std::uint64_t dropped_from_host = 0;
  std::uint64_t kept_on_disk = 0;  // host pages given away, their disk page kept
  std::uint64_t written = 0;       // transfers to the disk that were done
  std::uint64_t read = 0;          // transfers from the disk that were done
  std::uint64_t dropped_from_disk = 0;
  std::uint64_t damaged_on_disk = 0;  // not there, or not intact, when read
  std::uint64_t forgotten = 0;        // pages of conversations that were closed
  std::uint64_t expired = 0;          // pages not used for too long
};

}  // namespace troupe
