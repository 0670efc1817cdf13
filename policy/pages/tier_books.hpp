// SPDX-License-Identifier: Apache-2.0
// The books of all tiers: of each worker's device, of the host, of the disk; and how much of each the
// quotas have. Always, on each device: free + cached + held == total; on the host and on disk:
// free + used == total. Which node a page belongs to, PagePlaces says. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/device_book.hpp"
#include "policy/pages/disk_book.hpp"
#include "policy/pages/host_book.hpp"
#include "policy/pages/page_counts.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

class TierBooks {
 public:
  TierBooks(const ServingSettings& settings, std::uint32_t num_host_pages, std::uint32_t num_disk_pages)
      : settings_(settings), host_(settings, num_host_pages), disk_(settings, num_disk_pages) {}

  void add_device(WorkerIndex worker, std::uint32_t num_pages);  // there must be none of this worker
  void remove_device(WorkerIndex worker) { devices_[worker].reset(); }
  std::size_t num_workers() const { return devices_.size(); }  // above all indexes
  bool has_device(WorkerIndex worker) const {
    return worker < devices_.size() && devices_[worker].has_value();
  }
  DeviceBook& device(WorkerIndex worker) { return *devices_.at(worker); }
  const DeviceBook& device(WorkerIndex worker) const { return *devices_.at(worker); }
  HostBook& host() { return host_; }
  const HostBook& host() const { return host_; }
  DiskBook& disk() { return disk_; }
  const DiskBook& disk() const { return disk_; }
  PageCounts counts() const;  // all devices
  PageCounts counts(WorkerIndex worker) const;

  // From now on the quota has this part of each device, of the host and of the disk.
  void set_quota(const CacheQuota& quota) { quotas_.set(quota); }
  // Quotas that have more than their part, counting one page more of the newcomer.
  QuotasOver over_on_device(WorkerIndex worker, QuotaId newcomer) const;
  QuotasOver over_on_host(QuotaId newcomer) const;
  QuotasOver over_on_disk(QuotaId newcomer) const;
  // Pages of nodes, by quota; a device's book has its own.
  QuotaCounts& used_on_host() { return used_on_host_; }
  const QuotaCounts& used_on_host() const { return used_on_host_; }
  QuotaCounts& used_on_disk() { return used_on_disk_; }
  const QuotaCounts& used_on_disk() const { return used_on_disk_; }

 private:
  friend class Fingerprint;

  ServingSettings settings_;
  std::vector<std::optional<DeviceBook>> devices_;  // by worker
  HostBook host_;
  DiskBook disk_;
  CacheQuotas quotas_;
  QuotaCounts used_on_host_, used_on_disk_;
};

}  // namespace troupe
