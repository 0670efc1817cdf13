// SPDX-License-Identifier: Apache-2.0
// PageCache between device and host: what leaves for whom, what is loaded, what
// a device that is gone or a copy that failed takes with it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/page_cache.hpp"

namespace troupe {
namespace {

// A host page whose contents a running sequence has on the device is worth
// little: its loss costs a copy.
constexpr double kWorthOfSpare = 1.0 / 1024;
// Pages looked at in one call that the disk would not take.
constexpr std::size_t kMostPassedOver = 32;

}  // namespace

std::uint32_t PageCache::num_available() const {
  return static_cast<std::uint32_t>(free_device_pages_.size() + dirty_.size() + clean_.size());
}

std::uint32_t PageCache::take_device_page(TimePoint now) {
  if (free_device_pages_.empty()) {
    const auto dirty = dirty_.lowest(now);
    const auto clean = clean_.lowest(now);
    assert(dirty || clean);
    const bool takes_dirty = dirty && (!clean || dirty_.value(*dirty, now) < clean_.value(*clean, now));
    reclaim(takes_dirty ? *dirty : *clean, now);
  }
  const std::uint32_t page = free_device_pages_.back();
  free_device_pages_.pop_back();
  return page;
}

// Its device page becomes free; what is in it goes to the host if it may.
void PageCache::reclaim(NodeId id, TimePoint now) {
  if (nodes_[id].host_page == kNone) {
    if (const auto host_page = take_host_page(dirty_.value(id, now), now)) {
      store(id, *host_page);
    } else if (!is_on_disk(nodes_[id])) {
      statistics_.dropped_from_device += 1;
    }
  }
  dequeue(id);
  statistics_.reclaimed += nodes_[id].host_page != kNone ? 1 : 0;
  free_device_pages_.push_back(std::exchange(nodes_[id].device_page, kNone));
  enqueue(id);
  prune(id);
}

// What is lifted is nobody's victim.
void PageCache::lift(std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    dequeue(node);
    nodes_[node].is_lifted = true;
  }
}

void PageCache::put_back(std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    nodes_[node].is_lifted = false;
    enqueue(node);
  }
}

// A free one, or that of a page worth less than `value`. The device may still
// have copies to do that touch it: to it, they come first.
std::optional<std::uint32_t> PageCache::take_host_page(double value, TimePoint now) {
  if (free_host_pages_.empty()) {
    const auto victim = on_host_.lowest(now);
    if (!victim || on_host_.value(*victim, now) >= value) return std::nullopt;
    evict_from_host(*victim);
  }
  const std::uint32_t page = free_host_pages_.back();
  free_host_pages_.pop_back();
  return page;
}

// One that no copy under way touches, for who does not wait for the device.
std::optional<std::uint32_t> PageCache::take_idle_host_page(TimePoint now) {
  const auto is_idle = [this](std::uint32_t page) { return num_copies_under_way_[page] == 0; };
  auto idle = std::find_if(free_host_pages_.rbegin(), free_host_pages_.rend(), is_idle);
  if (idle == free_host_pages_.rend()) {
    std::vector<NodeId> busy;
    auto victim = on_host_.lowest(now);
    for (; victim && !is_idle(nodes_[*victim].host_page); victim = on_host_.lowest(now)) {
      busy.push_back(*victim);
      on_host_.erase(*victim);
    }
    for (const NodeId node : busy) {
      dequeue(node);
      enqueue(node);
    }
    if (!victim) return std::nullopt;
    evict_from_host(*victim);
    idle = free_host_pages_.rbegin();
  }
  const std::uint32_t page = *idle;
  free_host_pages_.erase(std::next(idle).base());
  return page;
}

void PageCache::evict_from_host(NodeId id) {
  (is_on_disk(nodes_[id]) ? statistics_.kept_on_disk : statistics_.dropped_from_host) += 1;
  drop_host_page(id);
  prune(id);
}

void PageCache::drop_host_page(NodeId id) {
  dequeue(id);
  Node& node = nodes_[id];
  host_owners_[node.host_page] = kNone;
  free_host_pages_.push_back(std::exchange(node.host_page, kNone));
  node.is_settled = false;
  enqueue(id);
}

void PageCache::store(NodeId id, std::uint32_t host_page) {
  dequeue(id);
  Node& node = nodes_[id];
  node.host_page = host_page;
  node.is_settled = false;
  host_owners_[host_page] = id;
  num_copies_under_way_[host_page] += 1;
  copies_.push_back({.direction = PageCopy::Direction::kStore,
                     .device_page = node.device_page,
                     .host_page = host_page,
                     .generation = node.generation});
  statistics_.stored += 1;
  enqueue(id);
}

void PageCache::load(HeldPage& held) {
  Node& node = nodes_[held.node];
  num_copies_under_way_[node.host_page] += 1;
  copies_.push_back({.direction = PageCopy::Direction::kLoad,
                     .device_page = held.page,
                     .host_page = node.host_page,
                     .generation = node.generation});
  statistics_.loaded += 1;
  node.device_page = held.page;
  node.num_holders = 1;
  held.is_private = false;
}

void PageCache::copies_done(std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    std::uint32_t& under_way = num_copies_under_way_.at(copy.host_page);
    if (under_way > 0) under_way -= 1;
    const NodeId id = host_owners_[copy.host_page];
    if (copy.direction != PageCopy::Direction::kStore || id == kNone ||
        nodes_[id].generation != copy.generation)
      continue;
    nodes_[id].is_settled = true;
    dequeue(id);
    enqueue(id);
  }
}

void PageCache::copy_ahead(std::uint32_t max_copies, TimePoint now) {
  const auto enough = static_cast<std::size_t>(options_.copy_ahead_below * options_.num_device_pages);
  while (max_copies > 0 && free_device_pages_.size() + clean_.size() < enough) {
    const auto dirty = dirty_.lowest(now);
    if (!dirty) return;
    const auto host_page = take_host_page(dirty_.value(*dirty, now), now);
    if (!host_page) return;
    store(*dirty, *host_page);
    max_copies -= 1;
  }
}

// What passes through a full host takes the place of what passed before it.
void PageCache::copy_behind(std::uint32_t max_copies, TimePoint now) {
  if (options_.num_disk_pages == 0) return;
  std::vector<NodeId> passed_over;
  while (max_copies > 0 && passed_over.size() < kMostPassedOver) {
    const auto loose = loose_.lowest(now);
    if (!loose) break;
    if (!could_be_written(*loose, now)) {
      passed_over.push_back(*loose);
      loose_.erase(*loose);
      continue;
    }
    if (free_host_pages_.empty()) {
      const auto backed = backed_.lowest(now);
      if (!backed) break;
      evict_from_host(*backed);
    }
    store(*loose, free_host_pages_.back());
    free_host_pages_.pop_back();
    max_copies -= 1;
  }
  for (const NodeId node : passed_over) {
    dequeue(node);
    enqueue(node);
  }
}

// Stores that were under way may have been done or not: whoever reads their host
// page finds out.
void PageCache::replace_device(std::uint32_t num_device_pages) {
  options_.num_device_pages = num_device_pages;
  free_device_pages_ = all_free(num_device_pages);
  leases_.clear();
  copies_.clear();
  std::fill(num_copies_under_way_.begin(), num_copies_under_way_.end(), 0);
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    if (!node.is_used) continue;
    dequeue(id);
    node.device_page = kNone;
    node.num_leases = node.num_holders = 0;
    node.is_settled = is_on_host(node);
    enqueue(id);
  }
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].is_used) prune(id);
}

// The tokens get a new node should they be computed again while somebody holds
// the void page; this one goes with its holders.
void PageCache::void_contents(std::uint64_t generation) {
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    if (!node.is_used || node.is_void || node.generation != generation) continue;
    if (!has_page(id)) return;
    const bool is_held = node.num_holders > 0;
    if (is_held) {
      dequeue(id);
      unfind(id);
      node.is_void = true;
    }
    drop(id);
    return;
  }
}

// From all tiers, but for a device page that somebody holds.
void PageCache::drop(NodeId id) {
  if (nodes_[id].is_fetching || nodes_[id].is_writing) abandon_transfer(id);
  if (nodes_[id].host_page != kNone) drop_host_page(id);
  if (nodes_[id].disk_page != kNone) drop_disk_page(id, true);
  dequeue(id);
  Node& node = nodes_[id];
  if (node.device_page != kNone && node.num_holders == 0)
    free_device_pages_.push_back(std::exchange(node.device_page, kNone));
  enqueue(id);
  prune(id);
}

// From the end as far as nobody else continues or holds it.
void PageCache::forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept) {
  std::vector<NodeId> chain;
  NodeId parent = kNone;
  for (std::size_t i = 0; i + options_.page_size <= tokens.size(); i += options_.page_size) {
    const auto page_tokens = tokens.subspan(i, options_.page_size);
    const NodeId node = find(tenant, parent, key_of(tenant, parent, page_tokens), page_tokens);
    if (node == kNone) break;
    chain.push_back(parent = node);
  }
  for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
    if (!nodes_[*id].is_used) continue;  // it was a hole, and went with its end
    if (nodes_[*id].num_children > 0 || nodes_[*id].num_leases > 0) return;
    if (std::size_t{nodes_[*id].depth} * options_.page_size < num_kept) return;
    statistics_.forgotten += 1;
    drop(*id);
  }
}

// Least recently used first, ends of conversations only: what is left stays
// findable.
void PageCache::expire(TimePoint oldest, std::uint32_t max_pages) {
  for (NodeId id = 0; id < nodes_.size() && max_pages > 0; ++id) {
    for (NodeId last = id; last != kNone && max_pages > 0;) {
      const Node& node = nodes_[last];
      if (!node.is_used || node.is_void || node.num_children > 0 || node.num_leases > 0 ||
          node.last_used >= oldest)
        break;
      const NodeId parent = node.parent;
      statistics_.expired += 1;
      max_pages -= 1;
      drop(last);
      last = parent;
    }
  }
}

std::vector<PageCopy> PageCache::take_copies() { return std::exchange(copies_, {}); }

void PageCache::enqueue(NodeId id) {
  Node& node = nodes_[id];
  if (node.is_lifted || node.is_void) return;
  EvictionEntry entry{.id = id, .worth = worth(node), .depth = node.depth, .last_used = node.last_used};
  if (node.device_page != kNone && node.num_holders == 0) {
    (node.host_page == kNone ? dirty_ : clean_).insert(entry);
    if (node.host_page == kNone && node.disk_page == kNone) loose_.insert(entry);
  }
  if (is_on_disk(node) && !node.is_fetching && node.num_disk_children == 0) on_disk_.insert(entry);
  if (is_unwritten(node) && !node.is_listed) {
    node.is_listed = true;
    unwritten_.push_back(id);
  }
  if (!is_on_host(node) || node.is_writing) return;
  entry.worth = worth_on_host(node);
  on_host_.insert(entry);
  if (is_on_disk(node)) backed_.insert(entry);
}

void PageCache::dequeue(NodeId id) {
  for (EvictionQueue* queue : {&dirty_, &clean_, &on_host_, &on_disk_, &loose_, &backed_})
    if (queue->contains(id)) queue->erase(id);
}

// Its worth has changed, and nothing else.
void PageCache::reweigh(NodeId id) {
  const double of_node = worth(nodes_[id]), on_host = worth_on_host(nodes_[id]);
  for (EvictionQueue* queue : {&dirty_, &clean_, &on_disk_, &loose_})
    if (queue->contains(id)) queue->change_worth(id, of_node);
  for (EvictionQueue* queue : {&on_host_, &backed_})
    if (queue->contains(id)) queue->change_worth(id, on_host);
}

double PageCache::worth(const Node& node) const {
  return options_.cost.of_page(node.depth) * node.num_leaves;
}

double PageCache::worth_on_host(const Node& node) const {
  return worth(node) * (node.num_holders > 0 ? kWorthOfSpare : 1.0);
}

PageCounts PageCache::counts() const {
  PageCounts counts;
  counts.total = options_.num_device_pages;
  counts.free = static_cast<std::uint32_t>(free_device_pages_.size());
  counts.cached = static_cast<std::uint32_t>(dirty_.size() + clean_.size());
  counts.running = counts.total - counts.free - counts.cached;
  counts.host_total = options_.num_host_pages;
  counts.host_free = static_cast<std::uint32_t>(free_host_pages_.size());
  counts.disk_total = options_.num_disk_pages;
  counts.disk_free = static_cast<std::uint32_t>(free_disk_pages_.size());
  return counts;
}

}  // namespace troupe
