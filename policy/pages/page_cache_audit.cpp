// SPDX-License-Identifier: Apache-2.0
// The invariants of PageCache that are of more than one of its books.
#include <algorithm>
#include <map>
#include <set>

#include "policy/pages/page_cache.hpp"

namespace troupe {

bool PageCache::is_consistent() const {
  for (NodeId id = 0; id < tree_.end(); ++id)
    if (tree_[id].is_used && !(is_place_consistent(id) && is_in_right_queues(id))) return false;
  return tree_.is_consistent() && host_.have_copies_an_order() && are_counted_right() &&
         have_queues_nothing_else() && have_device_pages_one_owner() && have_other_pages_one_owner() &&
         are_quotas_counted_right();
}

// A node by itself.
bool PageCache::is_place_consistent(NodeId id) const {
  const Place& place = places_[id];
  if (place.lifted_for != kNobody) return false;
  for (const DevicePage& page : place.on_devices)
    if (place.on(page.worker) != &page) return false;
  if (!place.has_page() && tree_[id].num_children == 0 && place.num_leases == 0) return false;
  if (tree_[id].is_findable == place.is_void) return false;
  if (is_tail(id) && (tree_[id].num_children > 0 || place.disk_page != kNone)) return false;
  if (place.host_page != kNone && host_.owner(place.host_page) != id) return false;
  const bool is_moving = place.is_fetching || place.is_writing;
  if (is_moving && (place.disk_page == kNone || place.host_page == kNone)) return false;
  if (place.disk_page != kNone && is_moving != disk_.is_under_way(place.disk_page, id)) return false;
  return !place.has_page() || place.generation != 0;
}

bool PageCache::is_in_right_queues(NodeId id) const {
  const Place& place = places_[id];
  const bool has_disk_page = place.disk_page != kNone;
  const bool is_moving = place.is_fetching || place.is_writing;
  for (const DevicePage& page : place.on_devices) {
    const DeviceBook& device = *devices_.at(page.worker);
    const bool is_evictable = !place.is_void && page.num_holders == 0;
    const bool is_dirty = is_evictable && place.host_page == kNone;
    if (device.has_dirty(page.page) != is_dirty ||
        device.has_clean(page.page) != (is_evictable && !is_dirty) ||
        device.has_loose(page.page) != (!place.is_void && is_way_open(id)) ||
        ((is_evictable || device.has_loose(page.page)) && device.node_of(page.page) != id))
      return false;
  }
  const bool may_leave_host = place.host_page != kNone && !is_moving;
  const bool may_leave_disk = has_disk_page && !is_moving && place.num_disk_children == 0 && !place.is_void;
  return host_.has(id) == may_leave_host && disk_.has(id) == may_leave_disk &&
         host_.has_backed(id) == (may_leave_host && has_disk_page);
}

// With the right nodes in them, sizes tell.
bool PageCache::have_queues_nothing_else() const {
  std::vector<std::size_t> on_devices(devices_.size());
  std::size_t on_host = 0, on_disk = 0;
  for (NodeId id = 0; id < tree_.end(); ++id) {
    if (!tree_[id].is_used) continue;
    for (const DevicePage& page : places_[id].on_devices) {
      const DeviceBook& device = *devices_.at(page.worker);
      on_devices[page.worker] += std::size_t{device.has_dirty(page.page)} + device.has_clean(page.page) +
                                 device.has_loose(page.page);
    }
    on_host += std::size_t{host_.has(id)} + host_.has_backed(id);
    on_disk += disk_.has(id) ? 1 : 0;
  }
  for (WorkerIndex worker = 0; worker < devices_.size(); ++worker)
    if (devices_[worker] && devices_[worker]->num_queued() != on_devices[worker]) return false;
  return on_host == host_.num_queued() && on_disk == disk_.num_queued();
}

// Leases, holders and children on disk, as the leases and the children themselves
// say.
bool PageCache::are_counted_right() const {
  std::map<NodeId, std::uint32_t> leases, disk_children;
  std::map<std::pair<NodeId, WorkerIndex>, std::uint32_t> holders;
  for (const auto& [id, lease] : leases_) {
    for (const HeldPage& held : lease.pages) {
      if (held.node == kNoNode) continue;
      leases[held.node] += 1;
      if (held.is_private) continue;
      holders[{held.node, lease.worker}] += 1;
      const DevicePage* const page = places_[held.node].on(lease.worker);
      if (!page || page->page != held.page) return false;
    }
  }
  for (NodeId id = 0; id < tree_.end(); ++id)
    if (tree_[id].is_used && tree_[id].parent != kNoNode && places_[id].disk_page != kNone)
      disk_children[tree_[id].parent] += 1;
  for (NodeId id = 0; id < tree_.end(); ++id) {
    const Place& place = places_[id];
    for (const DevicePage& page : place.on_devices)
      if (page.num_holders != holders[{id, page.worker}]) return false;
    if (place.num_leases != leases[id] || place.num_disk_children != disk_children[id]) return false;
  }
  return true;
}

// The free list, a node, or one lease alone.
bool PageCache::have_device_pages_one_owner() const {
  std::vector<std::vector<int>> owners(devices_.size());
  for (WorkerIndex worker = 0; worker < devices_.size(); ++worker) {
    if (!devices_[worker]) continue;
    owners[worker].resize(devices_[worker]->num_pages());
    for (const std::uint32_t page : devices_[worker]->free_pages()) owners[worker].at(page) += 1;
  }
  for (const auto& [id, lease] : leases_)
    for (const HeldPage& held : lease.pages)
      if (held.is_private) owners.at(lease.worker).at(held.page) += 1;
  for (NodeId id = 0; id < tree_.end(); ++id)
    for (const DevicePage& page : places_[id].on_devices) owners.at(page.worker).at(page.page) += 1;
  for (const auto& of_worker : owners)
    if (!std::all_of(of_worker.begin(), of_worker.end(), [](int number) { return number == 1; }))
      return false;
  return true;
}

// The free list, a node, or a transfer that was given up, which has a disk page and
// some host page.
bool PageCache::have_other_pages_one_owner() const {
  std::vector<int> on_host(host_.num_pages()), on_disk(disk_.num_pages());
  for (const std::uint32_t page : host_.free_pages()) on_host.at(page) += 1;
  for (const std::uint32_t page : disk_.free_pages()) on_disk.at(page) += 1;
  for (NodeId id = 0; id < tree_.end(); ++id) {
    if (places_[id].host_page != kNone) on_host.at(places_[id].host_page) += 1;
    if (places_[id].disk_page != kNone) on_disk.at(places_[id].disk_page) += 1;
  }
  const std::vector<std::uint32_t> given_up = disk_.given_up();
  for (const std::uint32_t page : given_up) on_disk.at(page) += 1;
  return std::all_of(on_disk.begin(), on_disk.end(), [](int owners) { return owners == 1; }) &&
         std::all_of(on_host.begin(), on_host.end(), [](int owners) { return owners <= 1; }) &&
         std::count(on_host.begin(), on_host.end(), 0) == static_cast<std::ptrdiff_t>(given_up.size());
}

// Pages in use, by their nodes' quotas; on devices, those of leases count as well.
bool PageCache::are_quotas_counted_right() const {
  QuotaCounts on_host, on_disk;
  std::vector<QuotaCounts> on_devices(devices_.size());
  std::set<QuotaId> quotas = {kNoQuota};
  for (NodeId id = 0; id < tree_.end(); ++id) {
    const Place& place = places_[id];
    quotas.insert(place.quota);
    if (place.host_page != kNone) on_host.add(place.quota);
    if (place.disk_page != kNone) on_disk.add(place.quota);
    for (const DevicePage& page : place.on_devices) on_devices[page.worker].add(place.quota);
  }
  for (const auto& [id, lease] : leases_) {
    quotas.insert(lease.quota);
    for (const HeldPage& held : lease.pages)
      if (held.is_private) on_devices[lease.worker].add(lease.quota);
  }
  return std::all_of(quotas.begin(), quotas.end(), [&](QuotaId quota) {
    for (WorkerIndex worker = 0; worker < devices_.size(); ++worker)
      if (devices_[worker] && devices_[worker]->used().of(quota) != on_devices[worker].of(quota))
        return false;
    return used_on_host_.of(quota) == on_host.of(quota) && used_on_disk_.of(quota) == on_disk.of(quota);
  });
}

}  // namespace troupe
