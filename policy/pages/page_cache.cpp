// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_cache.hpp"

#include "policy/pages/page_audit.hpp"

namespace troupe {

void PageCache::add_worker(WorkerIndex worker, std::uint32_t num_device_pages) {
  places_.add_device(worker, num_device_pages);
}

void PageCache::remove_worker(WorkerIndex worker) {
  for (const PageLease& lease : leases_.take_all_of(worker))
    for (const HeldPage& held : lease.pages)
      if (held.node != kNoNode) places_[held.node].num_leases -= 1;
  places_.remove_device(worker);
}

bool PageCache::is_consistent() const { return PageAudit(places_, leases_).finds_all_right(); }

}  // namespace troupe
