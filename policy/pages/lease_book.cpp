// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/lease_book.hpp"

namespace troupe {

PageLease* LeaseBook::find(LeaseId id) {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

std::optional<PageLease> LeaseBook::take(LeaseId id) {
  auto taken = leases_.extract(id);
  if (taken.empty()) return std::nullopt;
  return std::move(taken.mapped());
}

std::vector<PageLease> LeaseBook::take_all_of(WorkerIndex worker) {
  std::vector<PageLease> taken;
  for (auto entry = leases_.begin(); entry != leases_.end();) {
    if (entry->second.worker == worker) {
      taken.push_back(std::move(entry->second));
      entry = leases_.erase(entry);
    } else {
      ++entry;
    }
  }
  return taken;
}

}  // namespace troupe
