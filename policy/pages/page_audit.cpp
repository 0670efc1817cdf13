// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_audit.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

bool PageAudit::finds_all_right() const {
  for (NodeId id = 0; id < places_.tree().end(); ++id)
    if (places_.tree()[id].is_used && !(is_place_consistent(id) && is_in_right_queues(id))) return false;
  return places_.tree().is_consistent() && tiers_.host().have_copies_an_order() && are_counted_right() &&
         have_queues_nothing_else() && have_device_pages_one_owner() && have_other_pages_one_owner() &&
         are_quotas_counted_right();
}

// A node by itself.
bool PageAudit::is_place_consistent(NodeId id) const {
  const PagePlace& place = places_[id];
  if (place.lifted_for != PagePlace::kNobody) return false;
  for (const DevicePage& page : place.on_devices)
    if (place.on(page.worker) != &page) return false;
  if (!place.has_page() && places_.tree()[id].num_children == 0 && place.num_leases == 0) return false;
  if (places_.tree()[id].is_findable == place.is_void) return false;
  if (places_.is_tail(id) && (places_.tree()[id].num_children > 0 || place.disk_page != PagePlace::kNone))
    return false;
  if (place.host_page != PagePlace::kNone && tiers_.host().owner(place.host_page) != id) return false;
  const bool is_moving = place.is_fetching || place.is_writing;
  if (is_moving && (place.disk_page == PagePlace::kNone || place.host_page == PagePlace::kNone)) return false;
  if (place.disk_page != PagePlace::kNone && is_moving != tiers_.disk().is_under_way(place.disk_page, id))
    return false;
  return !place.has_page() || place.generation != 0;
}

bool PageAudit::is_in_right_queues(NodeId id) const {
  const PagePlace& place = places_[id];
  const bool has_disk_page = place.disk_page != PagePlace::kNone;
  const bool is_moving = place.is_fetching || place.is_writing;
  for (const DevicePage& page : place.on_devices) {
    const DeviceBook& device = tiers_.device(page.worker);
    const bool is_evictable = !place.is_void && page.num_holders == 0;
    const bool is_dirty = is_evictable && place.host_page == PagePlace::kNone;
    if (device.has_dirty(page.page) != is_dirty ||
        device.has_clean(page.page) != (is_evictable && !is_dirty) ||
        device.has_loose(page.page) != (!place.is_void && places_.is_way_open(id)) ||
        ((is_evictable || device.has_loose(page.page)) && device.node_of(page.page) != id))
      return false;
  }
  const bool may_leave_host = place.host_page != PagePlace::kNone && !is_moving;
  const bool may_leave_disk = has_disk_page && !is_moving && place.num_disk_children == 0 && !place.is_void;
  return tiers_.host().has(id) == may_leave_host && tiers_.disk().has(id) == may_leave_disk &&
         tiers_.host().has_backed(id) == (may_leave_host && has_disk_page);
}

// With the right nodes in them, sizes tell.
bool PageAudit::have_queues_nothing_else() const {
  std::vector<std::size_t> on_devices(tiers_.num_workers());
  std::size_t on_host = 0, on_disk = 0;
  for (NodeId id = 0; id < places_.tree().end(); ++id) {
    if (!places_.tree()[id].is_used) continue;
    for (const DevicePage& page : places_[id].on_devices) {
      const DeviceBook& device = tiers_.device(page.worker);
      on_devices[page.worker] += std::size_t{device.has_dirty(page.page)} + device.has_clean(page.page) +
                                 device.has_loose(page.page);
    }
    on_host += std::size_t{tiers_.host().has(id)} + tiers_.host().has_backed(id);
    on_disk += tiers_.disk().has(id) ? 1 : 0;
  }
  for (WorkerIndex worker = 0; worker < tiers_.num_workers(); ++worker)
    if (tiers_.has_device(worker) && tiers_.device(worker).num_queued() != on_devices[worker]) return false;
  return on_host == tiers_.host().num_queued() && on_disk == tiers_.disk().num_queued();
}

// Leases, holders and children on disk, as the leases and the children themselves
// say.
bool PageAudit::are_counted_right() const {
  std::map<NodeId, std::uint32_t> leases, disk_children;
  std::map<std::pair<NodeId, WorkerIndex>, std::uint32_t> holders;
  for (const auto& [id, lease] : leases_.all()) {
    for (const HeldPage& held : lease->pages) {
      if (held.node == kNoNode) continue;
      leases[held.node] += 1;
      if (held.is_private) continue;
      holders[{held.node, lease->worker}] += 1;
      const DevicePage* const page = places_[held.node].on(lease->worker);
      if (!page || page->page != held.page) return false;
    }
  }
  for (NodeId id = 0; id < places_.tree().end(); ++id)
    if (places_.tree()[id].is_used && places_.tree()[id].parent != kNoNode &&
        places_[id].disk_page != PagePlace::kNone)
      disk_children[places_.tree()[id].parent] += 1;
  for (NodeId id = 0; id < places_.tree().end(); ++id) {
    const PagePlace& place = places_[id];
    for (const DevicePage& page : place.on_devices)
      if (page.num_holders != holders[{id, page.worker}]) return false;
    if (place.num_leases != leases[id] || place.num_disk_children != disk_children[id]) return false;
  }
  return true;
}

// The free list, a node, or one lease alone.
bool PageAudit::have_device_pages_one_owner() const {
  std::vector<std::vector<int>> owners(tiers_.num_workers());
  for (WorkerIndex worker = 0; worker < tiers_.num_workers(); ++worker) {
    if (!tiers_.has_device(worker)) continue;
    owners[worker].resize(tiers_.device(worker).num_pages());
    for (const std::uint32_t page : tiers_.device(worker).free_pages()) owners[worker].at(page) += 1;
  }
  for (const auto& [id, lease] : leases_.all())
    for (const HeldPage& held : lease->pages)
      if (held.is_private) owners.at(lease->worker).at(held.page) += 1;
  for (NodeId id = 0; id < places_.tree().end(); ++id)
    for (const DevicePage& page : places_[id].on_devices) owners.at(page.worker).at(page.page) += 1;
  for (const auto& of_worker : owners)
    if (!std::all_of(of_worker.begin(), of_worker.end(), [](int number) { return number == 1; }))
      return false;
  return true;
}

// The free list, a node, or a transfer that was given up, which has a disk page and
// some host page.
bool PageAudit::have_other_pages_one_owner() const {
  std::vector<int> on_host(tiers_.host().num_pages()), on_disk(tiers_.disk().num_pages());
  for (const std::uint32_t page : tiers_.host().free_pages()) on_host.at(page) += 1;
  for (const std::uint32_t page : tiers_.disk().free_pages()) on_disk.at(page) += 1;
  for (NodeId id = 0; id < places_.tree().end(); ++id) {
    if (places_[id].host_page != PagePlace::kNone) on_host.at(places_[id].host_page) += 1;
    if (places_[id].disk_page != PagePlace::kNone) on_disk.at(places_[id].disk_page) += 1;
  }
  const std::vector<std::uint32_t> given_up = tiers_.disk().given_up();
  for (const std::uint32_t page : given_up) on_disk.at(page) += 1;
  return std::all_of(on_disk.begin(), on_disk.end(), [](int owners) { return owners == 1; }) &&
         std::all_of(on_host.begin(), on_host.end(), [](int owners) { return owners <= 1; }) &&
         std::count(on_host.begin(), on_host.end(), 0) == static_cast<std::ptrdiff_t>(given_up.size());
}

// Pages in use, by their nodes' quotas; on devices, those of leases count as well.
bool PageAudit::are_quotas_counted_right() const {
  QuotaCounts on_host, on_disk;
  std::vector<QuotaCounts> on_devices(tiers_.num_workers());
  std::set<QuotaId> quotas = {kNoQuota};
  for (NodeId id = 0; id < places_.tree().end(); ++id) {
    const PagePlace& place = places_[id];
    quotas.insert(place.quota);
    if (place.host_page != PagePlace::kNone) on_host.add(place.quota);
    if (place.disk_page != PagePlace::kNone) on_disk.add(place.quota);
    for (const DevicePage& page : place.on_devices) on_devices[page.worker].add(place.quota);
  }
  for (const auto& [id, lease] : leases_.all()) {
    quotas.insert(lease->quota);
    for (const HeldPage& held : lease->pages)
      if (held.is_private) on_devices[lease->worker].add(lease->quota);
  }
  return std::all_of(quotas.begin(), quotas.end(), [&](QuotaId quota) {
    for (WorkerIndex worker = 0; worker < tiers_.num_workers(); ++worker)
      if (tiers_.has_device(worker) && tiers_.device(worker).used().of(quota) != on_devices[worker].of(quota))
        return false;
    return tiers_.used_on_host().of(quota) == on_host.of(quota) &&
           tiers_.used_on_disk().of(quota) == on_disk.of(quota);
  });
}

}  // namespace troupe
