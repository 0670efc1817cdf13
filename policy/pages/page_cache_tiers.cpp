// SPDX-License-Identifier: Apache-2.0
// PageCache between devices and host: what leaves for what, what is loaded, what
// a device that is gone or a copy that failed takes with it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/pages/page_cache.hpp"

namespace troupe {
namespace {

// A host page whose contents a running sequence has on the device is worth
// little: its loss costs a copy.
constexpr double kWorthOfSpare = 1.0 / 1024;
// Pages looked at in one call that the disk would not take.
constexpr std::size_t kMostPassedOver = 32;

}  // namespace

// Nodes that an earlier process left, and that are its tenant's as is now known.
void PageCache::own(std::span<const NodeId> chain, QuotaId quota) {
  for (const NodeId id : chain) {
    Place& place = places_[id];
    if (place.quota == quota) continue;
    dequeue(id);
    for (const DevicePage& page : place.on_devices) device(page.worker).change_quota(page.page, quota);
    const std::uint32_t host_page = place.host_page == kNone ? kNone : clear_host_page(id);
    const std::uint32_t disk_page = place.disk_page == kNone ? kNone : clear_disk_page(id);
    place.quota = quota;
    if (host_page != kNone) set_host_page(id, host_page);
    if (disk_page != kNone) set_disk_page(id, disk_page);
    enqueue(id);
  }
}

std::uint32_t PageCache::take_device_page(WorkerIndex worker, QuotaId quota, TimePoint now) {
  DeviceBook& device = this->device(worker);
  if (device.num_free() == 0) {
    const auto victim = device.next_victim(now, quotas_.over(device.used(), device.num_pages(), quota));
    assert(victim);
    reclaim(worker, device.node_of(*victim), now);
  }
  return device.take_free(quota);
}

// Its page on this device becomes free; what is in it goes to the host if it may.
void PageCache::reclaim(WorkerIndex worker, NodeId id, TimePoint now) {
  if (places_[id].host_page == kNone) {
    const double value = device(worker).value_of_dirty(places_[id].on(worker)->page, now);
    if (const auto host_page = take_host_page(worker, id, value, now)) {
      store(worker, id, *host_page);
    } else if (!places_[id].is_on_disk()) {
      statistics_.dropped_from_device += 1;
    }
  }
  dequeue(id);
  statistics_.reclaimed += places_[id].host_page != kNone ? 1 : 0;
  free_device_page(id, worker);
  enqueue(id);
  prune(id);
}

// The node must be in no queue.
void PageCache::free_device_page(NodeId id, WorkerIndex worker) {
  auto& pages = places_[id].on_devices;
  const auto found =
      std::find_if(pages.begin(), pages.end(), [&](const DevicePage& page) { return page.worker == worker; });
  device(worker).put_free(found->page);
  pages.erase(found);
}

// What is lifted is no victim.
void PageCache::lift(WorkerIndex worker, std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    dequeue(node, worker);
    places_[node].lifted_for = worker;
  }
}

void PageCache::put_back(std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    enqueue(node, std::exchange(places_[node].lifted_for, kNobody));
  }
}

// A free one, or that of a page worth less than the node's `value`, for a store. The worker's
// device may still have copies to do that touch it: to it, they come first.
std::optional<std::uint32_t> PageCache::take_host_page(WorkerIndex worker, NodeId node, double value,
                                                       TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.may_store(worker, page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotaId quota = places_[node].quota;
  const QuotasOver over = quotas_.over(used_on_host_, host_.num_pages(), quota);
  const auto victim =
      host_.next_victim(now, over, [&](NodeId other) { return may_use(places_[other].host_page); });
  if (!victim) return std::nullopt;
  const PageClaim held{.quota = places_[*victim].quota, .value = host_.value(*victim, now)};
  if (!gives_way(held, {.quota = quota, .value = value}, over)) return std::nullopt;
  evict_from_host(*victim);
  return host_.take_free(may_use);
}

// One that no copy under way touches, for what is in order with no device.
std::optional<std::uint32_t> PageCache::take_idle_host_page(QuotaId quota, TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.is_idle(page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotasOver over = quotas_.over(used_on_host_, host_.num_pages(), quota);
  const auto victim =
      host_.next_victim(now, over, [&](NodeId node) { return may_use(places_[node].host_page); });
  if (!victim || (over.has(quota) && !over.has(places_[*victim].quota))) return std::nullopt;
  evict_from_host(*victim);
  return host_.take_free(may_use);
}

// A free one, or that of a page that is on disk too, for a store.
std::optional<std::uint32_t> PageCache::take_backed_host_page(WorkerIndex worker, NodeId node,
                                                              TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.may_store(worker, page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotaId quota = places_[node].quota;
  const QuotasOver over = quotas_.over(used_on_host_, host_.num_pages(), quota);
  const auto victim =
      host_.next_backed(now, over, [&](NodeId other) { return may_use(places_[other].host_page); });
  if (!victim || (over.has(quota) && !over.has(places_[*victim].quota))) return std::nullopt;
  evict_from_host(*victim);
  return host_.take_free(may_use);
}

void PageCache::evict_from_host(NodeId id) {
  (places_[id].is_on_disk() ? statistics_.kept_on_disk : statistics_.dropped_from_host) += 1;
  drop_host_page(id);
  prune(id);
}

void PageCache::drop_host_page(NodeId id) {
  dequeue(id);
  const std::uint32_t page = clear_host_page(id);
  host_.set_owner(page, kNoNode);
  host_.put_free(page);
  enqueue(id);
}

void PageCache::set_host_page(NodeId id, std::uint32_t host_page) {
  places_[id].host_page = host_page;
  used_on_host_.add(places_[id].quota);
}

std::uint32_t PageCache::clear_host_page(NodeId id) {
  used_on_host_.remove(places_[id].quota);
  return std::exchange(places_[id].host_page, kNone);
}

void PageCache::store(WorkerIndex worker, NodeId id, std::uint32_t host_page) {
  dequeue(id);
  Place& place = places_[id];
  set_host_page(id, host_page);
  host_.set_owner(host_page, id);
  queue_copy(worker, {.direction = PageCopy::kStore,
                      .device_page = place.on(worker)->page,
                      .host_page = host_page,
                      .generation = place.generation});
  statistics_.stored += 1;
  enqueue(id);
}

void PageCache::load(WorkerIndex worker, HeldPage& held) {
  Place& place = places_[held.node];
  queue_copy(worker, {.direction = PageCopy::kLoad,
                      .device_page = held.page,
                      .host_page = place.host_page,
                      .generation = place.generation});
  statistics_.loaded += 1;
  place.add({.worker = worker, .page = held.page, .num_holders = 1});
  held.is_private = false;
}

// To or from the host.
void PageCache::queue_copy(WorkerIndex worker, const PageCopy& copy) {
  host_.begin(worker, copy);
  device(worker).queue(copy);
}

void PageCache::copies_done(WorkerIndex worker, std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    if (copy.is_within()) continue;
    const bool is_settled = host_.end(worker, copy);
    const NodeId owner = host_.owner(copy.host_page);
    if (!is_settled || owner == kNoNode) continue;
    dequeue(owner);
    enqueue(owner);
  }
}

void PageCache::copy_ahead(WorkerIndex worker, std::uint32_t max_copies, TimePoint now) {
  DeviceBook& device = this->device(worker);
  const auto enough = static_cast<std::size_t>(options_.serving.copy_ahead_below * device.num_pages());
  while (max_copies > 0 && device.num_spare() < enough) {
    const auto dirty = device.next_dirty(now);
    if (!dirty) return;
    const NodeId node = device.node_of(*dirty);
    const auto host_page = take_host_page(worker, node, device.value_of_dirty(*dirty, now), now);
    if (!host_page) return;
    store(worker, node, *host_page);
    max_copies -= 1;
  }
}

// What passes through a full host takes the place of what passed before it.
void PageCache::copy_behind(WorkerIndex worker, std::uint32_t max_copies, TimePoint now) {
  if (options_.num_disk_pages == 0) return;
  std::vector<NodeId> passed_over;
  while (max_copies > 0 && passed_over.size() < kMostPassedOver) {
    const auto page = device(worker).next_loose(now);
    if (!page) break;
    const NodeId loose = device(worker).node_of(*page);
    for (const NodeId id : chain_to_copy(worker, loose)) {
      if (max_copies == 0 || !has_disk_room_for(id, now)) break;
      const auto host_page = take_backed_host_page(worker, id, now);
      if (!host_page) break;
      store(worker, id, *host_page);
      max_copies -= 1;
    }
    if (max_copies > 0 && places_[loose].host_page == kNone) {
      passed_over.push_back(loose);
      device(worker).pass_over(*page);
    }
  }
  for (const NodeId node : passed_over) {
    dequeue(node);
    enqueue(node);
  }
}

// The tokens get a new node should they be computed again while a lease holds the
// void page; this one goes with its holders.
void PageCache::void_contents(std::uint64_t generation) {
  for (NodeId id = 0; id < tree_.end(); ++id) {
    Place& place = places_[id];
    if (!tree_[id].is_used || place.is_void || place.generation != generation) continue;
    if (!place.has_page()) return;
    if (place.is_held()) {
      dequeue(id);
      tree_.hide(id);
      place.is_void = true;
    }
    drop(id, DiskBook::Discard::kReleased);
    return;
  }
}

// From all tiers, but for device pages that leases hold.
void PageCache::drop(NodeId id, DiskBook::Discard on_disk) {
  if (places_[id].is_fetching || places_[id].is_writing) abandon_transfer(id);
  if (places_[id].host_page != kNone) drop_host_page(id);
  if (places_[id].disk_page != kNone) drop_disk_page(id, on_disk);
  dequeue(id);
  std::erase_if(places_[id].on_devices, [&](const DevicePage& page) {
    if (page.num_holders > 0) return false;
    device(page.worker).put_free(page.page);
    return true;
  });
  enqueue(id);
  prune(id);
}

// From the end as far as nothing else continues or holds it.
void PageCache::forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept) {
  const std::vector<NodeId> chain = tree_.match(tenant, tokens);
  for (std::size_t depth = 0; depth <= chain.size(); ++depth) {
    const std::size_t begin = depth * options_.page_size;
    if (begin >= num_kept)
      drop_tails(tenant, depth == 0 ? kNoNode : chain[depth - 1], tokens.subspan(begin), tokens.size());
  }
  for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
    const PrefixTree::Node& node = tree_[*id];
    if (!node.is_used) continue;  // it was a hole, and went with its end
    if (node.num_children > 0 || places_[*id].num_leases > 0) return;
    if (std::size_t{node.depth} * options_.page_size < num_kept) return;
    statistics_.forgotten += 1;
    drop(*id, DiskBook::Discard::kErased);
  }
}

// Least recently used first, ends of conversations only: what is left stays
// findable.
void PageCache::expire(TimePoint oldest, std::uint32_t max_pages) {
  for (NodeId id = 0; id < tree_.end() && max_pages > 0; ++id) {
    for (NodeId last = id; last != kNoNode && max_pages > 0;) {
      const PrefixTree::Node& node = tree_[last];
      const Place& place = places_[last];
      if (!node.is_used || place.is_void || node.num_children > 0 || place.num_leases > 0 ||
          place.last_used >= oldest)
        break;
      const NodeId parent = node.parent;
      statistics_.expired += 1;
      max_pages -= 1;
      drop(last, DiskBook::Discard::kReleased);
      last = parent;
    }
  }
}

std::vector<PageCopy> PageCache::take_copies(WorkerIndex worker) { return device(worker).take_copies(); }

// On one device only where nothing has changed for the others: a page that many
// have costs none of them anything when it is used on one.
void PageCache::enqueue(NodeId id, WorkerIndex worker) {
  const Place& place = places_[id];
  if (place.is_void) return;
  EvictionEntry entry{.id = id,
                      .worth = worth(id),
                      .depth = tree_[id].depth,
                      .last_used = place.last_used,
                      .quota = place.quota};
  const bool is_on_way_to_disk = is_way_open(id);
  for (const DevicePage& page : place.on_devices) {
    if (page.worker == place.lifted_for || (worker != kAll && worker != page.worker)) continue;
    if (page.num_holders == 0) device(page.worker).enqueue(page.page, entry, place.host_page != kNone);
    if (is_on_way_to_disk) device(page.worker).enqueue_loose(page.page, entry);
  }
  if (place.lifted_for != kNobody) return;
  if (place.is_on_disk() && !place.is_fetching && place.num_disk_children == 0) disk_.enqueue(entry);
  if (is_unwritten(id)) disk_.list_unwritten(id);
  if (!place.is_on_host() || place.is_writing) return;
  entry.worth = worth_on_host(id);
  host_.enqueue(entry, place.is_on_disk());
}

void PageCache::dequeue(NodeId id, WorkerIndex worker) {
  for (const DevicePage& page : places_[id].on_devices)
    if (worker == kAll || worker == page.worker) device(page.worker).dequeue(page.page);
  host_.dequeue(id);
  disk_.dequeue(id);
}

// Its worth has changed, and nothing else.
void PageCache::reweigh(NodeId id) {
  const double of_node = worth(id);
  for (const DevicePage& page : places_[id].on_devices) device(page.worker).change_worth(page.page, of_node);
  disk_.change_worth(id, of_node);
  host_.change_worth(id, worth_on_host(id));
}

void PageCache::reweigh_changed() {
  for (const NodeId id : tree_.changed()) reweigh(id);
}

double PageCache::worth(NodeId id) const {
  const PrefixTree::Node& node = tree_[id];
  const double share = static_cast<double>(node.tokens.size()) / options_.page_size;
  return options_.cost.of_page(node.depth) * share * node.num_leaves;
}

double PageCache::worth_on_host(NodeId id) const {
  return worth(id) * (places_[id].is_held() ? kWorthOfSpare : 1.0);
}

}  // namespace troupe
