// SPDX-License-Identifier: Apache-2.0
// PageCache between host and disk: what is written while there is time, what is
// fetched before a sequence needs it, what a page file still had at the start.
#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "policy/page_cache.hpp"

namespace troupe {
namespace {

// Pages in the list of those to write that are looked at in one call.
constexpr std::size_t kMostLookedAt = 32;
// No file of ours has a later one; beyond, numbers would come to their end.
constexpr std::uint64_t kLastGeneration = std::numeric_limits<std::uint64_t>::max() / 2;

}  // namespace

// Bottom up, so that the dearest are fetched where the host has no room for all.
std::vector<std::uint64_t> PageCache::fetch(TenantId tenant, std::span<const std::int32_t> tokens,
                                            TimePoint now) {
  std::vector<std::uint64_t> awaited;
  if (options_.num_disk_pages == 0) return awaited;
  const std::vector<NodeId> chain = match(tenant, tokens);
  const std::vector<bool> is_worth_loading = worth_loading(chain, true);
  lift(chain);
  std::vector<DiskTransfer> reads;
  for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
    Node& node = nodes_[*id];
    if (node.device_page != kNone || is_on_host(node) || !is_worth_loading[node.depth]) continue;
    if (!node.is_fetching) {
      const auto host_page = take_idle_host_page(now);
      if (!host_page) break;
      node.host_page = *host_page;
      node.is_fetching = true;
      host_owners_[*host_page] = *id;
      under_way_.emplace(node.disk_page, *id);
      reads.push_back({.direction = DiskTransfer::Direction::kRead,
                       .disk_page = node.disk_page,
                       .host_page = *host_page,
                       .identity = identity_of(node)});
    }
    awaited.push_back(node.generation);
  }
  put_back(chain);
  transfers_.insert(transfers_.end(), reads.rbegin(), reads.rend());
  return awaited;
}

void PageCache::write_behind(std::uint32_t max_writes, TimePoint now) {
  for (std::size_t left = std::min(unwritten_.size(), kMostLookedAt); left > 0 && max_writes > 0; --left) {
    const NodeId id = unwritten_.front();
    unwritten_.pop_front();
    nodes_[id].is_listed = false;
    if (!nodes_[id].is_used || !is_unwritten(nodes_[id])) continue;
    const NodeId first = first_not_on_disk(id);
    const Node& front = nodes_[first];
    if (is_unwritten(front)) {
      if (!write(first, now)) continue;
      max_writes -= 1;
      if (first == id) continue;
    } else if (front.device_page == kNone && front.host_page == kNone) {
      continue;  // the page in front is nowhere
    }
    nodes_[id].is_listed = true;  // its turn comes when the one in front is written
    unwritten_.push_back(id);
  }
}

bool PageCache::is_unwritten(const Node& node) const {
  return options_.num_disk_pages > 0 && is_on_host(node) && node.is_settled && !node.is_void &&
         node.disk_page == kNone;
}

PageCache::NodeId PageCache::first_not_on_disk(NodeId id) const {
  NodeId first = id;
  for (NodeId at = nodes_[id].parent; at != kNone; at = nodes_[at].parent) {
    if (is_on_disk(nodes_[at])) break;
    first = at;
  }
  return first;
}

// Once it is on the host: all in front of it are on their way, and the disk has
// room for it or something of less value.
bool PageCache::could_be_written(NodeId id, TimePoint now) const {
  for (NodeId at = nodes_[id].parent; at != kNone && !is_on_disk(nodes_[at]); at = nodes_[at].parent)
    if (nodes_[at].host_page == kNone) return false;
  if (!free_disk_pages_.empty()) return true;
  const auto lowest = on_disk_.lowest(now);
  return lowest && on_disk_.value(*lowest, now) < value_on_disk(nodes_[id], now);
}

double PageCache::value_on_disk(const Node& node, TimePoint now) const {
  return on_disk_.value_of(worth(node), node.last_used, now);
}

// False: what is on disk is worth more.
bool PageCache::write(NodeId id, TimePoint now) {
  const double value = value_on_disk(nodes_[id], now);
  const NodeId parent = nodes_[id].parent;
  if (parent != kNone) dequeue(parent);  // not to make room for its child
  const auto disk_page = take_disk_page(value, now);
  if (parent != kNone) {
    dequeue(parent);
    enqueue(parent);
  }
  if (!disk_page) return false;
  dequeue(id);
  Node& node = nodes_[id];
  node.is_writing = true;
  set_disk_page(id, *disk_page);
  under_way_.emplace(*disk_page, id);
  transfers_.push_back({.direction = DiskTransfer::Direction::kWrite,
                        .disk_page = *disk_page,
                        .host_page = node.host_page,
                        .identity = identity_of(node)});
  enqueue(id);
  return true;
}

std::optional<std::uint32_t> PageCache::take_disk_page(double value, TimePoint now) {
  if (free_disk_pages_.empty()) {
    const auto victim = on_disk_.lowest(now);
    if (!victim || on_disk_.value(*victim, now) >= value) return std::nullopt;
    statistics_.dropped_from_disk += 1;
    drop_disk_page(*victim, false);
    prune(*victim);
  }
  const std::uint32_t page = free_disk_pages_.back();
  free_disk_pages_.pop_back();
  return page;
}

void PageCache::set_disk_page(NodeId id, std::uint32_t disk_page) {
  nodes_[id].disk_page = disk_page;
  const NodeId parent = nodes_[id].parent;
  if (parent == kNone) return;
  dequeue(parent);
  nodes_[parent].num_disk_children += 1;
  enqueue(parent);
}

// is_erased: the file is to forget it too, and not only when the space is used
// again.
void PageCache::drop_disk_page(NodeId id, bool is_erased) {
  dequeue(id);
  Node& node = nodes_[id];
  if (is_erased)
    transfers_.push_back({.direction = DiskTransfer::Direction::kErase,
                          .disk_page = node.disk_page,
                          .host_page = 0,
                          .identity = {}});
  free_disk_pages_.push_back(std::exchange(node.disk_page, kNone));
  node.is_writing = false;
  const NodeId parent = node.parent;
  enqueue(id);
  if (parent == kNone) return;
  dequeue(parent);
  nodes_[parent].num_disk_children -= 1;
  enqueue(parent);
}

// The node does without; the pages are free when the transfer is over.
void PageCache::abandon_transfer(NodeId id) {
  dequeue(id);
  Node& node = nodes_[id];
  under_way_.at(node.disk_page) = kNone;
  host_owners_[node.host_page] = kNone;
  node.host_page = node.disk_page = kNone;
  node.is_fetching = node.is_writing = node.is_settled = false;
  const NodeId parent = node.parent;
  enqueue(id);
  if (parent == kNone) return;
  dequeue(parent);
  nodes_[parent].num_disk_children -= 1;
  enqueue(parent);
}

void PageCache::transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now) {
  const auto found = under_way_.find(transfer.disk_page);
  if (found == under_way_.end() || transfer.direction == DiskTransfer::Direction::kErase) return;
  const NodeId id = found->second;
  under_way_.erase(found);
  if (id == kNone) {
    free_host_pages_.push_back(transfer.host_page);
    free_disk_pages_.push_back(transfer.disk_page);
    transfers_.push_back({.direction = DiskTransfer::Direction::kErase,
                          .disk_page = transfer.disk_page,
                          .host_page = 0,
                          .identity = {}});
    return;
  }
  const bool is_done = outcome == TransferOutcome::kDone;
  dequeue(id);
  Node& node = nodes_[id];
  if (transfer.direction == DiskTransfer::Direction::kRead) {
    node.is_fetching = false;
    node.is_settled = is_done;
    node.last_used = std::max(node.last_used, now);  // it is wanted
    enqueue(id);
    statistics_.read += is_done ? 1 : 0;
    if (is_done) return;
    statistics_.damaged_on_disk += 1;
    drop_host_page(id);
    drop_disk_page(id, true);
  } else if (is_done) {
    node.is_writing = false;
    enqueue(id);
    statistics_.written += 1;
    return;
  } else {
    drop_disk_page(id, true);
    if (outcome == TransferOutcome::kDamaged) drop_host_page(id);
  }
  prune(id);
}

PageIdentity PageCache::identity_of(const Node& node) const {
  return {.tenant = node.tenant,
          .generation = node.generation,
          .parent_generation = node.parent == kNone ? 0 : nodes_[node.parent].generation,
          .depth = node.depth,
          .tokens = node.tokens};
}

void PageCache::restore(std::vector<StoredPage> stored, TimePoint now) {
  assert(free_disk_pages_.size() == options_.num_disk_pages);
  std::sort(stored.begin(), stored.end(),
            [](const StoredPage& a, const StoredPage& b) { return a.identity.depth < b.identity.depth; });
  std::unordered_map<std::uint64_t, NodeId> by_generation;
  std::vector<bool> is_used(options_.num_disk_pages);
  for (const StoredPage& page : stored) {
    if (page.disk_page >= options_.num_disk_pages || is_used[page.disk_page]) continue;
    const NodeId id = adopt_stored(page, by_generation);
    if (id == kNone) {
      transfers_.push_back({.direction = DiskTransfer::Direction::kErase,
                            .disk_page = page.disk_page,
                            .host_page = 0,
                            .identity = {}});
      continue;
    }
    is_used[page.disk_page] = true;
    by_generation.emplace(page.identity.generation, id);
    nodes_[id].generation = page.identity.generation;
    next_generation_ = std::max(next_generation_, page.identity.generation + 1);
    nodes_[id].last_used = now - page.age;
    set_disk_page(id, page.disk_page);
    dequeue(id);
    enqueue(id);
  }
  std::erase_if(free_disk_pages_, [&](std::uint32_t page) { return is_used[page]; });
}

// kNone: it can't be what it says.
PageCache::NodeId PageCache::adopt_stored(const StoredPage& page,
                                          const std::unordered_map<std::uint64_t, NodeId>& by_generation) {
  const PageIdentity& identity = page.identity;
  if (identity.generation == 0 || identity.generation > kLastGeneration ||
      by_generation.contains(identity.generation) || identity.tokens.size() != options_.page_size)
    return kNone;
  NodeId parent = kNone;
  if (identity.depth > 0) {
    const auto found = by_generation.find(identity.parent_generation);
    if (found == by_generation.end()) return kNone;
    parent = found->second;
    if (nodes_[parent].depth + 1 != identity.depth || nodes_[parent].tenant != identity.tenant) return kNone;
  } else if (identity.parent_generation != 0) {
    return kNone;
  }
  const PageKey key = key_of(identity.tenant, parent, identity.tokens);
  if (find(identity.tenant, parent, key, identity.tokens) != kNone) return kNone;
  return add_node(identity.tenant, parent, key, identity.tokens);
}

std::vector<DiskTransfer> PageCache::take_transfers() { return std::exchange(transfers_, {}); }

}  // namespace troupe
