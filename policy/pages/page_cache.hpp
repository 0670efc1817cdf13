// SPDX-License-Identifier: Apache-2.0
// Where the KV of every known token is: on the devices of workers, on the host,
// on disk, in several of these places, or nowhere any more. Device pages are a
// worker's, host and disk pages the machine's: a page that one worker stored can
// be loaded by another. The map has one state and a part for each question that is asked of it:
//
//   search()    how much of a prompt is known, and where              prefix_search.hpp
//   leases()    device pages for sequences                            page_leases.hpp
//   host()      copies between devices and host, and what gives way   host_traffic.hpp
//   disk()      transfers between host and disk                       disk_traffic.hpp
//   disposal()  drops of contents that are wrong, over or old         page_disposal.hpp
//
//            reserve, extend                       release
//   free ───────────────────► held by leases ───────────────────► cached
//    ▲                          ▲   │ commit: others may share it    │ copy_ahead:
//    │                          │   ▼                                │ also on the host
//    │                          └── a later sequence finds it ◄──────┤
//    └────────── reclaimed: kept on the host, or dropped ◄───────────┘
//
//                fetch                      write_behind
//   on disk ───────────────► on the host ───────────────► on both
//
// The state is in PagePlaces (which node's pages are where) and LeaseBook (which lease holds which); a part
// refers to both and is made for a call. A value.
#pragma once

#include <cstdint>
#include <utility>

#include "policy/pages/disk_traffic.hpp"
#include "policy/pages/host_traffic.hpp"
#include "policy/pages/lease_book.hpp"
#include "policy/pages/page_disposal.hpp"
#include "policy/pages/page_leases.hpp"
#include "policy/pages/page_places.hpp"
#include "policy/pages/prefix_search.hpp"

namespace troupe {

class PageCache {
 public:
  using TimePoint = PagePlaces::TimePoint;

  explicit PageCache(PageCacheOptions options) : places_(std::move(options)) {}

  // A device without contents; there must be no worker of this index.
  void add_worker(WorkerIndex worker, std::uint32_t num_device_pages);
  // The device is gone, and all leases on it with it; host pages that it was still
  // storing hold nothing. Nothing of it may touch host pages any more. Pages of host,
  // disk and other workers are kept. Copies that it has done, and that are not
  // reported before this, are as good as not done.
  void remove_worker(WorkerIndex worker);
  // From now on the quota has this part of each device, of the host and of the disk.
  void set_quota(const CacheQuota& quota) { places_.tiers().set_quota(quota); }

  PrefixSearch search() const { return PrefixSearch(places_); }
  PageLeases leases() { return {places_, leases_}; }
  HostTraffic host() { return HostTraffic(places_); }
  DiskTraffic disk() { return DiskTraffic(places_); }
  PageDisposal disposal() { return PageDisposal(places_); }

  PageCounts counts() const { return places_.tiers().counts(); }  // all devices
  PageCounts counts(WorkerIndex worker) const { return places_.tiers().counts(worker); }
  const PageCacheStatistics& statistics() const { return places_.statistics(); }
  std::size_t num_leases() const { return leases_.size(); }
  std::size_t num_nodes() const { return places_.tree().num_findable(); }
  // Every invariant, the slow way: for tests and debug builds.
  bool is_consistent() const;

 private:
  friend class Fingerprint;

  PagePlaces places_;
  LeaseBook leases_;
};

}  // namespace troupe
