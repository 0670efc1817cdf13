// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/tier_books.hpp"

#include <cassert>

namespace troupe {

void TierBooks::add_device(WorkerIndex worker, std::uint32_t num_pages) {
  if (worker >= devices_.size()) devices_.resize(std::size_t{worker} + 1);
  assert(!devices_[worker]);
  devices_[worker].emplace(settings_, num_pages);
}

PageCounts TierBooks::counts() const {
  PageCounts all = counts(0);
  for (WorkerIndex worker = 1; worker < devices_.size(); ++worker) {
    const PageCounts one = counts(worker);
    all.total += one.total;
    all.free += one.free;
    all.cached += one.cached;
    all.running += one.running;
  }
  return all;
}

PageCounts TierBooks::counts(WorkerIndex worker) const {
  PageCounts counts;
  if (has_device(worker)) {
    const DeviceBook& device = *devices_[worker];
    counts.total = device.num_pages();
    counts.free = device.num_free();
    counts.cached = device.num_cached();
    counts.running = counts.total - device.num_available();
  }
  counts.host_total = host_.num_pages();
  counts.host_free = host_.num_free();
  counts.disk_total = disk_.num_pages();
  counts.disk_free = disk_.num_free();
  return counts;
}

QuotasOver TierBooks::over_on_device(WorkerIndex worker, QuotaId newcomer) const {
  const DeviceBook& book = device(worker);
  return quotas_.over(book.used(), book.num_pages(), newcomer);
}

QuotasOver TierBooks::over_on_host(QuotaId newcomer) const {
  return quotas_.over(used_on_host_, host_.num_pages(), newcomer);
}

QuotasOver TierBooks::over_on_disk(QuotaId newcomer) const {
  return quotas_.over(used_on_disk_, disk_.num_pages(), newcomer);
}

}  // namespace troupe
