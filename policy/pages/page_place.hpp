// SPDX-License-Identifier: Apache-2.0
// Where the KV of one node of the prefix tree is: on devices, on the host, on disk, in several of these,
// or nowhere any more. A plain value; PagePlaces keeps what must hold between it and the tiers.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/page_copy.hpp"

namespace troupe {

struct DevicePage {
  WorkerIndex worker = 0;
  std::uint32_t page = 0;
  std::uint32_t num_holders = 0;  // leases that use it
};

struct PagePlace {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr WorkerIndex kNobody = UINT32_MAX;

  std::vector<DevicePage> on_devices;  // by worker, at most one each
  std::uint32_t host_page = kNone;
  std::uint32_t disk_page = kNone;
  std::uint32_t num_disk_children = 0;  // children with a disk page
  std::uint32_t num_leases = 0;         // that have it in their chain
  std::uint64_t generation = 0;         // of its contents
  std::chrono::steady_clock::time_point last_used;
  QuotaId quota = kNoQuota;
  bool is_void = false;      // its page is not to be found; goes with its holders
  bool is_fetching = false;  // from the disk page to the host page
  bool is_writing = false;   // from the host page to the disk page
  // Lifted for a reservation of this worker: out of its queue, the host's
  // and the disk's meanwhile.
  WorkerIndex lifted_for = kNobody;

  const DevicePage* on(WorkerIndex worker) const;
  DevicePage* on(WorkerIndex worker);
  void add(const DevicePage& page);
  bool is_held() const;
  bool is_on_host() const { return host_page != kNone && !is_fetching; }
  bool is_on_disk() const { return disk_page != kNone && !is_writing; }
  bool has_page() const { return !on_devices.empty() || is_on_host() || is_on_disk(); }
};

}  // namespace troupe
