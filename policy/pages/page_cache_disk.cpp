// SPDX-License-Identifier: Apache-2.0
// PageCache between host and disk: what is written while there is time, what is
// fetched before a sequence needs it, what a page file still had at the start.
#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "policy/pages/page_cache.hpp"

namespace troupe {
namespace {

// Pages in the list of those to write that are looked at in one call.
constexpr std::size_t kMostLookedAt = 32;
// No file of ours has a later one; beyond, numbers would come to their end.
constexpr std::uint64_t kLastGeneration = std::numeric_limits<std::uint64_t>::max() / 2;

}  // namespace

// Bottom up, so that the dearest are fetched where the host has no room for all.
std::vector<std::uint64_t> PageCache::fetch(WorkerIndex worker, TenantId tenant,
                                            std::span<const std::int32_t> tokens, TimePoint now,
                                            QuotaId quota) {
  std::vector<std::uint64_t> awaited;
  if (options_.num_disk_pages == 0) return awaited;
  const Found found = find(worker, tenant, tokens, true);
  std::vector<bool> is_worth_loading = worth_loading(worker, found.chain, true);
  std::vector<NodeId> lifted = found.chain;
  if (found.head != kNoNode) {
    lifted.push_back(found.head);
    is_worth_loading.push_back(true);
  }
  own(lifted, quota);
  lift(worker, lifted);
  std::vector<DiskTransfer> reads;
  for (std::size_t i = lifted.size(); i-- > 0;) {
    const NodeId id = lifted[i];
    const Place& place = places_[id];
    if (place.on(worker) || place.is_on_host() || !is_worth_loading[i]) continue;
    if (!place.is_fetching) {
      const auto host_page = take_idle_host_page(quota, now);
      if (!host_page) break;
      reads.push_back(begin_read(id, *host_page));
    }
    awaited.push_back(place.generation);
  }
  put_back(lifted);
  for (auto read = reads.rbegin(); read != reads.rend(); ++read) disk_.queue(std::move(*read));
  return awaited;
}

DiskTransfer PageCache::begin_read(NodeId id, std::uint32_t host_page) {
  dequeue(id);
  Place& place = places_[id];
  set_host_page(id, host_page);
  place.is_fetching = true;
  host_.set_owner(host_page, id);
  disk_.begin(place.disk_page, id);
  enqueue(id);
  return {.direction = DiskTransfer::Direction::kRead,
          .disk_page = place.disk_page,
          .host_page = host_page,
          .identity = identity_of(id)};
}

void PageCache::write_behind(std::uint32_t max_writes, TimePoint now) {
  for (std::size_t left = std::min(disk_.num_unwritten(), kMostLookedAt); left > 0 && max_writes > 0;
       --left) {
    const NodeId id = disk_.next_unwritten();
    if (!tree_[id].is_used || !is_unwritten(id)) continue;
    if (!write_with_front(id, max_writes, now)) disk_.list_unwritten(id);
  }
}

// False: its turn comes when those in front of it are on the host, or more may be written.
bool PageCache::write_with_front(NodeId id, std::uint32_t& max_writes, TimePoint now) {
  for (const NodeId at : chain_to_write(id)) {
    const Place& place = places_[at];
    if (!is_unwritten(at)) return place.on_devices.empty() && place.host_page == kNone;  // nowhere
    if (max_writes == 0) return false;
    if (!write(at, now)) return true;
    max_writes -= 1;
  }
  return true;
}

bool PageCache::is_unwritten(NodeId id) const {
  const Place& place = places_[id];
  return options_.num_disk_pages > 0 && is_settled(place) && !place.is_void && place.disk_page == kNone &&
         !is_tail(id);
}

// It is on devices alone and may go to the disk.
bool PageCache::is_way_open(NodeId id) const {
  const Place& place = places_[id];
  return options_.num_disk_pages > 0 && place.host_page == kNone && place.disk_page == kNone && !is_tail(id);
}

// The page and those in front of it, from the first that is neither on the disk nor
// on its way there.
std::vector<NodeId> PageCache::chain_to_write(NodeId id) const {
  std::vector<NodeId> chain{id};
  for (NodeId at = tree_[id].parent; at != kNoNode && places_[at].disk_page == kNone; at = tree_[at].parent)
    chain.push_back(at);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// Those of them that the host lacks; none if this worker does not have them all.
std::vector<NodeId> PageCache::chain_to_copy(WorkerIndex worker, NodeId id) const {
  std::vector<NodeId> chain = chain_to_write(id);
  std::erase_if(chain, [&](NodeId at) { return places_[at].host_page != kNone; });
  const bool is_here = std::all_of(chain.begin(), chain.end(), [&](NodeId at) {
    const DevicePage* const page = places_[at].on(worker);
    return page && devices_[worker]->has_loose(page->page);
  });
  return is_here ? chain : std::vector<NodeId>{};
}

// Its own, or that of something of less value.
bool PageCache::has_disk_room_for(NodeId id, TimePoint now) const {
  return disk_.has_room() || disk_victim(id, now);
}

double PageCache::value_on_disk(NodeId id, TimePoint now) const {
  return disk_.value_of(worth(id), places_[id].last_used, now);
}

// False: what is on disk is worth more.
bool PageCache::write(NodeId id, TimePoint now) {
  const NodeId parent = tree_[id].parent;
  if (parent != kNoNode) dequeue(parent);  // not to make room for its child
  const auto disk_page = take_disk_page(id, now);
  if (parent != kNoNode) {
    dequeue(parent);
    enqueue(parent);
  }
  if (!disk_page) return false;
  dequeue(id);
  places_[id].is_writing = true;
  set_disk_page(id, *disk_page);
  disk_.begin(*disk_page, id);
  disk_.queue({.direction = DiskTransfer::Direction::kWrite,
               .disk_page = *disk_page,
               .host_page = places_[id].host_page,
               .identity = identity_of(id)});
  enqueue(id);
  return true;
}

// The node whose page on disk gives way to this one's.
std::optional<NodeId> PageCache::disk_victim(NodeId id, TimePoint now) const {
  const QuotaId quota = places_[id].quota;
  const QuotasOver over = quotas_.over(used_on_disk_, disk_.num_pages(), quota);
  const auto victim = disk_.next_victim(now, over);
  if (!victim) return std::nullopt;
  const PageClaim held{.quota = places_[*victim].quota, .value = disk_.value(*victim, now)};
  return gives_way(held, {.quota = quota, .value = value_on_disk(id, now)}, over) ? victim : std::nullopt;
}

std::optional<std::uint32_t> PageCache::take_disk_page(NodeId id, TimePoint now) {
  if (disk_.has_room()) return disk_.take_free();
  const auto victim = disk_victim(id, now);
  if (!victim) return std::nullopt;
  statistics_.dropped_from_disk += 1;
  drop_disk_page(*victim, DiskBook::Discard::kLeft);
  prune(*victim);
  return disk_.take_free();
}

void PageCache::set_disk_page(NodeId id, std::uint32_t disk_page) {
  places_[id].disk_page = disk_page;
  used_on_disk_.add(places_[id].quota);
  count_disk_child(tree_[id].parent, 1);
}

std::uint32_t PageCache::clear_disk_page(NodeId id) {
  used_on_disk_.remove(places_[id].quota);
  count_disk_child(tree_[id].parent, -1);
  return std::exchange(places_[id].disk_page, kNone);
}

void PageCache::drop_disk_page(NodeId id, DiskBook::Discard discard) {
  dequeue(id);
  const std::uint32_t page = clear_disk_page(id);
  disk_.queue_discard(page, discard);
  disk_.put_free(page);
  places_[id].is_writing = false;
  enqueue(id);
}

void PageCache::count_disk_child(NodeId parent, int difference) {
  if (parent == kNoNode) return;
  dequeue(parent);
  places_[parent].num_disk_children += static_cast<std::uint32_t>(difference);
  enqueue(parent);
}

void PageCache::give_up_disk_pages(std::uint32_t max_pages, TimePoint now) {
  std::uint32_t num_dropped = 0;
  for (; num_dropped < max_pages; ++num_dropped) {
    const auto victim = disk_.next_victim(now, quotas_.over(used_on_disk_, disk_.num_pages(), kNoQuota));
    if (!victim) break;
    statistics_.dropped_from_disk += 1;
    drop_disk_page(*victim, DiskBook::Discard::kReleased);
    prune(*victim);
  }
  disk_.stop_growth(num_dropped);
}

// The node does without; the pages are free when the transfer is over.
void PageCache::abandon_transfer(NodeId id) {
  dequeue(id);
  Place& place = places_[id];
  disk_.give_up(place.disk_page);
  host_.set_owner(clear_host_page(id), kNoNode);
  clear_disk_page(id);
  place.is_fetching = place.is_writing = false;
  enqueue(id);
}

void PageCache::transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now) {
  if (transfer.direction == DiskTransfer::Direction::kErase ||
      transfer.direction == DiskTransfer::Direction::kRelease)
    return;
  const auto ended = disk_.end(transfer.disk_page);
  if (!ended) return;
  const NodeId id = *ended;
  if (id == kNoNode) {
    host_.put_free(transfer.host_page);
    disk_.put_free(transfer.disk_page);
    disk_.queue_discard(transfer.disk_page, DiskBook::Discard::kErased);  // it may have been forgotten
    return;
  }
  const bool is_done = outcome == TransferOutcome::kDone;
  dequeue(id);
  Place& place = places_[id];
  if (transfer.direction == DiskTransfer::Direction::kRead) {
    place.is_fetching = false;
    place.last_used = std::max(place.last_used, now);  // it is wanted
    enqueue(id);
    statistics_.read += is_done ? 1 : 0;
    if (is_done) return;
    statistics_.damaged_on_disk += 1;
    drop_host_page(id);
    drop_disk_page(id, DiskBook::Discard::kReleased);
  } else if (is_done) {
    place.is_writing = false;
    enqueue(id);
    statistics_.written += 1;
    return;
  } else {
    drop_disk_page(id, DiskBook::Discard::kReleased);
    if (outcome == TransferOutcome::kNoRoom) disk_.stop_growth(1);
    if (outcome == TransferOutcome::kDamaged) drop_host_page(id);
  }
  prune(id);
}

PageIdentity PageCache::identity_of(NodeId id) const {
  const PrefixTree::Node& node = tree_[id];
  return {.tenant = node.tenant,
          .generation = places_[id].generation,
          .parent_generation = node.parent == kNoNode ? 0 : places_[node.parent].generation,
          .depth = node.depth,
          .tokens = node.tokens};
}

void PageCache::restore(std::vector<StoredPage> stored, TimePoint now) {
  assert(disk_.num_free() == options_.num_disk_pages);
  std::sort(stored.begin(), stored.end(),
            [](const StoredPage& a, const StoredPage& b) { return a.identity.depth < b.identity.depth; });
  std::unordered_map<std::uint64_t, NodeId> by_generation;
  std::vector<bool> is_used(options_.num_disk_pages);
  for (const StoredPage& page : stored) {
    if (page.disk_page >= options_.num_disk_pages || is_used[page.disk_page]) continue;
    const NodeId id = adopt_stored(page, by_generation);
    if (id == kNoNode) {
      disk_.queue_discard(page.disk_page, DiskBook::Discard::kErased);
      continue;
    }
    is_used[page.disk_page] = true;
    by_generation.emplace(page.identity.generation, id);
    places_[id].generation = page.identity.generation;
    next_generation_ = std::max(next_generation_, page.identity.generation + 1);
    places_[id].last_used = now - page.age;
    set_disk_page(id, page.disk_page);
    dequeue(id);
    enqueue(id);
  }
  disk_.occupy(is_used);
}

// kNoNode: it can't be what it says.
NodeId PageCache::adopt_stored(const StoredPage& page,
                               const std::unordered_map<std::uint64_t, NodeId>& by_generation) {
  const PageIdentity& identity = page.identity;
  if (identity.generation == 0 || identity.generation > kLastGeneration ||
      by_generation.contains(identity.generation) || identity.tokens.size() != options_.page_size)
    return kNoNode;
  NodeId parent = kNoNode;
  if (identity.depth > 0) {
    const auto found = by_generation.find(identity.parent_generation);
    if (found == by_generation.end()) return kNoNode;
    parent = found->second;
    if (tree_[parent].depth + 1 != identity.depth || tree_[parent].tenant != identity.tenant) return kNoNode;
  } else if (identity.parent_generation != 0) {
    return kNoNode;
  }
  if (tree_.find(identity.tenant, parent, identity.tokens) != kNoNode) return kNoNode;
  return add_node(identity.tenant, kNoQuota, parent, identity.tokens);
}

std::vector<DiskTransfer> PageCache::take_transfers() { return disk_.take_transfers(); }

}  // namespace troupe
