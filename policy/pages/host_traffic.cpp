// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/host_traffic.hpp"

#include <cassert>

namespace troupe {

std::uint32_t HostTraffic::take_device_page(WorkerIndex worker, QuotaId quota, TimePoint now) {
  DeviceBook& device = places_.tiers().device(worker);
  if (device.num_free() == 0) {
    const auto victim = device.next_victim(now, places_.tiers().over_on_device(worker, quota));
    assert(victim);
    reclaim(worker, device.node_of(*victim), now);
  }
  return device.take_free(quota);
}

// Its page on this device becomes free; what is in it goes to the host if it may.
void HostTraffic::reclaim(WorkerIndex worker, NodeId id, TimePoint now) {
  if (places_[id].host_page == PagePlace::kNone) {
    const double value = places_.tiers().device(worker).value_of_dirty(places_[id].on(worker)->page, now);
    if (const auto host_page = take_page(worker, id, value, now)) {
      store(worker, id, *host_page);
    } else if (!places_[id].is_on_disk()) {
      places_.statistics().dropped_from_device += 1;
    }
  }
  places_.dequeue(id);
  places_.statistics().reclaimed += places_[id].host_page != PagePlace::kNone ? 1 : 0;
  places_.free_device_page(id, worker);
  places_.enqueue(id);
  places_.prune(id);
}

// A free one, or that of a page worth less than the node's `value`, for a store. The worker's
// device may still have copies to do that touch it: to it, they come first.
std::optional<std::uint32_t> HostTraffic::take_page(WorkerIndex worker, NodeId node, double value,
                                                    TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.may_store(worker, page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotaId quota = places_[node].quota;
  const QuotasOver over = places_.tiers().over_on_host(quota);
  const auto victim =
      host_.next_victim(now, over, [&](NodeId other) { return may_use(places_[other].host_page); });
  if (!victim) return std::nullopt;
  const PageClaim held{.quota = places_[*victim].quota, .value = host_.value(*victim, now)};
  if (!gives_way(held, {.quota = quota, .value = value}, over)) return std::nullopt;
  evict(*victim);
  return host_.take_free(may_use);
}

std::optional<std::uint32_t> HostTraffic::take_idle_page(QuotaId quota, TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.is_idle(page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotasOver over = places_.tiers().over_on_host(quota);
  const auto victim =
      host_.next_victim(now, over, [&](NodeId node) { return may_use(places_[node].host_page); });
  if (!victim || (over.has(quota) && !over.has(places_[*victim].quota))) return std::nullopt;
  evict(*victim);
  return host_.take_free(may_use);
}

std::optional<std::uint32_t> HostTraffic::take_backed_page(WorkerIndex worker, NodeId node, TimePoint now) {
  const auto may_use = [&](std::uint32_t page) { return host_.may_store(worker, page); };
  if (const auto page = host_.take_free(may_use)) return page;
  const QuotaId quota = places_[node].quota;
  const QuotasOver over = places_.tiers().over_on_host(quota);
  const auto victim =
      host_.next_backed(now, over, [&](NodeId other) { return may_use(places_[other].host_page); });
  if (!victim || (over.has(quota) && !over.has(places_[*victim].quota))) return std::nullopt;
  evict(*victim);
  return host_.take_free(may_use);
}

void HostTraffic::evict(NodeId id) {
  (places_[id].is_on_disk() ? places_.statistics().kept_on_disk : places_.statistics().dropped_from_host) +=
      1;
  places_.drop_host_page(id);
  places_.prune(id);
}

void HostTraffic::store(WorkerIndex worker, NodeId id, std::uint32_t host_page) {
  places_.dequeue(id);
  PagePlace& place = places_[id];
  places_.set_host_page(id, host_page);
  queue_copy(worker, {.direction = PageCopy::kStore,
                      .device_page = place.on(worker)->page,
                      .host_page = host_page,
                      .generation = place.generation});
  places_.statistics().stored += 1;
  places_.enqueue(id);
}

void HostTraffic::load(WorkerIndex worker, NodeId id, std::uint32_t device_page) {
  const PagePlace& place = places_[id];
  queue_copy(worker, {.direction = PageCopy::kLoad,
                      .device_page = device_page,
                      .host_page = place.host_page,
                      .generation = place.generation});
  places_.statistics().loaded += 1;
}

// To or from the host.
void HostTraffic::queue_copy(WorkerIndex worker, const PageCopy& copy) {
  host_.begin(worker, copy);
  places_.tiers().device(worker).queue(copy);
}

void HostTraffic::copy_ahead(WorkerIndex worker, std::uint32_t max_copies, TimePoint now) {
  DeviceBook& device = places_.tiers().device(worker);
  const auto enough =
      static_cast<std::size_t>(places_.options().serving.copy_ahead_below * device.num_pages());
  while (max_copies > 0 && device.num_spare() < enough) {
    const auto dirty = device.next_dirty(now);
    if (!dirty) return;
    const NodeId node = device.node_of(*dirty);
    const auto host_page = take_page(worker, node, device.value_of_dirty(*dirty, now), now);
    if (!host_page) return;
    store(worker, node, *host_page);
    max_copies -= 1;
  }
}

void HostTraffic::copies_done(WorkerIndex worker, std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    if (copy.is_within()) continue;
    const bool is_settled = host_.end(worker, copy);
    const NodeId owner = host_.owner(copy.host_page);
    if (!is_settled || owner == kNoNode) continue;
    places_.dequeue(owner);
    places_.enqueue(owner);
  }
}

}  // namespace troupe
