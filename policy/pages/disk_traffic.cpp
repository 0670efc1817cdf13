// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/disk_traffic.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "policy/pages/host_traffic.hpp"
#include "policy/pages/prefix_search.hpp"

namespace troupe {
namespace {

// Pages in the list of those to write that are looked at in one call.
constexpr std::size_t kMostLookedAt = 32;
// Pages looked at in one call that the disk would not take.
constexpr std::size_t kMostPassedOver = 32;
// No file of ours has a later one; beyond, numbers would come to their end.
constexpr std::uint64_t kLastGeneration = std::numeric_limits<std::uint64_t>::max() / 2;

}  // namespace

// Bottom up, so that the dearest are fetched where the host has no room for all.
std::vector<std::uint64_t> DiskTraffic::fetch(WorkerIndex worker, TenantId tenant,
                                              std::span<const std::int32_t> tokens, TimePoint now,
                                              QuotaId quota) {
  std::vector<std::uint64_t> awaited;
  if (places_.options().num_disk_pages == 0) return awaited;
  const PrefixSearch search(places_);
  const PrefixSearch::Found found = search.find(worker, tenant, tokens, true);
  std::vector<bool> is_worth_loading = search.worth_loading(worker, found.chain, true);
  std::vector<NodeId> lifted = found.chain;
  if (found.head != kNoNode) {
    lifted.push_back(found.head);
    is_worth_loading.push_back(true);
  }
  places_.own(lifted, quota);
  places_.lift(worker, lifted);
  std::vector<DiskTransfer> reads;
  for (std::size_t i = lifted.size(); i-- > 0;) {
    const NodeId id = lifted[i];
    const PagePlace& place = places_[id];
    if (place.on(worker) || place.is_on_host() || !is_worth_loading[i]) continue;
    if (!place.is_fetching) {
      const auto host_page = HostTraffic(places_).take_idle_page(quota, now);
      if (!host_page) break;
      reads.push_back(begin_read(id, *host_page));
    }
    awaited.push_back(place.generation);
  }
  places_.put_back(lifted);
  for (auto read = reads.rbegin(); read != reads.rend(); ++read) disk_.queue(std::move(*read));
  return awaited;
}

DiskTransfer DiskTraffic::begin_read(NodeId id, std::uint32_t host_page) {
  places_.dequeue(id);
  PagePlace& place = places_[id];
  places_.set_host_page(id, host_page);
  place.is_fetching = true;
  disk_.begin(place.disk_page, id);
  places_.enqueue(id);
  return {.direction = DiskTransfer::Direction::kRead,
          .disk_page = place.disk_page,
          .host_page = host_page,
          .identity = identity_of(id)};
}

// What passes through a full host takes the place of what passed before it.
void DiskTraffic::copy_behind(WorkerIndex worker, std::uint32_t max_copies, TimePoint now) {
  if (places_.options().num_disk_pages == 0) return;
  std::vector<NodeId> passed_over;
  while (max_copies > 0 && passed_over.size() < kMostPassedOver) {
    const auto page = places_.tiers().device(worker).next_loose(now);
    if (!page) break;
    const NodeId loose = places_.tiers().device(worker).node_of(*page);
    for (const NodeId id : chain_to_copy(worker, loose)) {
      if (max_copies == 0 || !has_room_for(id, now)) break;
      const auto host_page = HostTraffic(places_).take_backed_page(worker, id, now);
      if (!host_page) break;
      HostTraffic(places_).store(worker, id, *host_page);
      max_copies -= 1;
    }
    if (max_copies > 0 && places_[loose].host_page == PagePlace::kNone) {
      passed_over.push_back(loose);
      places_.tiers().device(worker).pass_over(*page);
    }
  }
  for (const NodeId node : passed_over) {
    places_.dequeue(node);
    places_.enqueue(node);
  }
}

// Those of them that the host lacks; none if this worker does not have them all.
std::vector<NodeId> DiskTraffic::chain_to_copy(WorkerIndex worker, NodeId id) const {
  std::vector<NodeId> chain = chain_to_write(id);
  std::erase_if(chain, [&](NodeId at) { return places_[at].host_page != PagePlace::kNone; });
  const bool is_here = std::all_of(chain.begin(), chain.end(), [&](NodeId at) {
    const DevicePage* const page = places_[at].on(worker);
    return page && places_.tiers().device(worker).has_loose(page->page);
  });
  return is_here ? chain : std::vector<NodeId>{};
}

void DiskTraffic::write_behind(std::uint32_t max_writes, TimePoint now) {
  for (std::size_t left = std::min(disk_.num_unwritten(), kMostLookedAt); left > 0 && max_writes > 0;
       --left) {
    const NodeId id = disk_.next_unwritten();
    if (!places_.tree()[id].is_used || !places_.is_unwritten(id)) continue;
    if (!write_with_front(id, max_writes, now)) disk_.list_unwritten(id);
  }
}

// False: its turn comes when those in front of it are on the host, or more may be written.
bool DiskTraffic::write_with_front(NodeId id, std::uint32_t& max_writes, TimePoint now) {
  for (const NodeId at : chain_to_write(id)) {
    const PagePlace& place = places_[at];
    if (!places_.is_unwritten(at))
      return place.on_devices.empty() && place.host_page == PagePlace::kNone;  // nowhere
    if (max_writes == 0) return false;
    if (!write(at, now)) return true;
    max_writes -= 1;
  }
  return true;
}

// The page and those in front of it, from the first that is neither on the disk nor
// on its way there.
std::vector<NodeId> DiskTraffic::chain_to_write(NodeId id) const {
  std::vector<NodeId> chain{id};
  for (NodeId at = places_.tree()[id].parent; at != kNoNode && places_[at].disk_page == PagePlace::kNone;
       at = places_.tree()[at].parent)
    chain.push_back(at);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// False: what is on disk is worth more.
bool DiskTraffic::write(NodeId id, TimePoint now) {
  const NodeId parent = places_.tree()[id].parent;
  if (parent != kNoNode) places_.dequeue(parent);  // not to make room for its child
  const auto disk_page = take_page(id, now);
  if (parent != kNoNode) {
    places_.dequeue(parent);
    places_.enqueue(parent);
  }
  if (!disk_page) return false;
  places_.dequeue(id);
  places_[id].is_writing = true;
  places_.set_disk_page(id, *disk_page);
  disk_.begin(*disk_page, id);
  disk_.queue({.direction = DiskTransfer::Direction::kWrite,
               .disk_page = *disk_page,
               .host_page = places_[id].host_page,
               .identity = identity_of(id)});
  places_.enqueue(id);
  return true;
}

// Its own, or that of something of less value.
bool DiskTraffic::has_room_for(NodeId id, TimePoint now) const {
  return disk_.has_room() || victim_for(id, now);
}

// The node whose page on disk gives way to this one's.
std::optional<NodeId> DiskTraffic::victim_for(NodeId id, TimePoint now) const {
  const QuotaId quota = places_[id].quota;
  const QuotasOver over = places_.tiers().over_on_disk(quota);
  const auto victim = disk_.next_victim(now, over);
  if (!victim) return std::nullopt;
  const PageClaim held{.quota = places_[*victim].quota, .value = disk_.value(*victim, now)};
  return gives_way(held, {.quota = quota, .value = value_of(id, now)}, over) ? victim : std::nullopt;
}

double DiskTraffic::value_of(NodeId id, TimePoint now) const {
  return disk_.value_of(places_.worth(id), places_[id].last_used, now);
}

std::optional<std::uint32_t> DiskTraffic::take_page(NodeId id, TimePoint now) {
  if (disk_.has_room()) return disk_.take_free();
  const auto victim = victim_for(id, now);
  if (!victim) return std::nullopt;
  places_.statistics().dropped_from_disk += 1;
  places_.drop_disk_page(*victim, DiskBook::Discard::kLeft);
  places_.prune(*victim);
  return disk_.take_free();
}

PageIdentity DiskTraffic::identity_of(NodeId id) const {
  const PrefixTree::Node& node = places_.tree()[id];
  return {.tenant = node.tenant,
          .generation = places_[id].generation,
          .parent_generation = node.parent == kNoNode ? 0 : places_[node.parent].generation,
          .depth = node.depth,
          .tokens = node.tokens};
}

void DiskTraffic::transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now) {
  if (transfer.direction == DiskTransfer::Direction::kErase ||
      transfer.direction == DiskTransfer::Direction::kRelease)
    return;
  const auto ended = disk_.end(transfer.disk_page);
  if (!ended) return;
  const NodeId id = *ended;
  if (id == kNoNode) {
    places_.tiers().host().put_free(transfer.host_page);
    disk_.put_free(transfer.disk_page);
    disk_.queue_discard(transfer.disk_page,
                        DiskBook::Discard::kErased);  // it may have been forgotten
    return;
  }
  const bool is_done = outcome == TransferOutcome::kDone;
  places_.dequeue(id);
  PagePlace& place = places_[id];
  if (transfer.direction == DiskTransfer::Direction::kRead) {
    place.is_fetching = false;
    place.last_used = std::max(place.last_used, now);  // it is wanted
    places_.enqueue(id);
    places_.statistics().read += is_done ? 1 : 0;
    if (is_done) return;
    places_.statistics().damaged_on_disk += 1;
    places_.drop_host_page(id);
    places_.drop_disk_page(id, DiskBook::Discard::kReleased);
  } else if (is_done) {
    place.is_writing = false;
    places_.enqueue(id);
    places_.statistics().written += 1;
    return;
  } else {
    places_.drop_disk_page(id, DiskBook::Discard::kReleased);
    if (outcome == TransferOutcome::kNoRoom) disk_.stop_growth(1);
    if (outcome == TransferOutcome::kDamaged) places_.drop_host_page(id);
  }
  places_.prune(id);
}

void DiskTraffic::give_up_pages(std::uint32_t max_pages, TimePoint now) {
  std::uint32_t num_dropped = 0;
  for (; num_dropped < max_pages; ++num_dropped) {
    const auto victim = disk_.next_victim(now, places_.tiers().over_on_disk(kNoQuota));
    if (!victim) break;
    places_.statistics().dropped_from_disk += 1;
    places_.drop_disk_page(*victim, DiskBook::Discard::kReleased);
    places_.prune(*victim);
  }
  disk_.stop_growth(num_dropped);
}

void DiskTraffic::restore(std::vector<StoredPage> stored, TimePoint now) {
  assert(disk_.num_free() == places_.options().num_disk_pages);
  std::sort(stored.begin(), stored.end(),
            [](const StoredPage& a, const StoredPage& b) { return a.identity.depth < b.identity.depth; });
  std::unordered_map<std::uint64_t, NodeId> by_generation;
  std::vector<bool> is_used(places_.options().num_disk_pages);
  for (const StoredPage& page : stored) {
    if (page.disk_page >= places_.options().num_disk_pages || is_used[page.disk_page]) continue;
    const NodeId id = adopt_stored(page, by_generation);
    if (id == kNoNode) {
      disk_.queue_discard(page.disk_page, DiskBook::Discard::kErased);
      continue;
    }
    is_used[page.disk_page] = true;
    by_generation.emplace(page.identity.generation, id);
    places_[id].generation = page.identity.generation;
    places_.skip_generation(page.identity.generation);
    places_[id].last_used = now - page.age;
    places_.set_disk_page(id, page.disk_page);
    places_.dequeue(id);
    places_.enqueue(id);
  }
  disk_.occupy(is_used);
}

// kNoNode: it can't be what it says.
NodeId DiskTraffic::adopt_stored(const StoredPage& page,
                                 const std::unordered_map<std::uint64_t, NodeId>& by_generation) {
  const PageIdentity& identity = page.identity;
  if (identity.generation == 0 || identity.generation > kLastGeneration ||
      by_generation.contains(identity.generation) || identity.tokens.size() != places_.options().page_size)
    return kNoNode;
  NodeId parent = kNoNode;
  if (identity.depth > 0) {
    const auto found = by_generation.find(identity.parent_generation);
    if (found == by_generation.end()) return kNoNode;
    parent = found->second;
    if (places_.tree()[parent].depth + 1 != identity.depth ||
        places_.tree()[parent].tenant != identity.tenant)
      return kNoNode;
  } else if (identity.parent_generation != 0) {
    return kNoNode;
  }
  if (places_.tree().find(identity.tenant, parent, identity.tokens) != kNoNode) return kNoNode;
  return places_.add(identity.tenant, kNoQuota, parent, identity.tokens);
}

}  // namespace troupe
