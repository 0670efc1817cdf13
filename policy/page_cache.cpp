// SPDX-License-Identifier: Apache-2.0
#include "policy/page_cache.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {
namespace {

// A host page whose contents a running sequence has on the device is worth
// little: its loss costs a copy.
constexpr double kWorthOfSpare = 1.0 / 1024;

std::vector<std::uint32_t> all_free(std::uint32_t num_pages) {
  std::vector<std::uint32_t> pages;
  pages.reserve(num_pages);
  for (std::uint32_t page = num_pages; page > 0; --page) pages.push_back(page - 1);
  return pages;
}

}  // namespace

PageCache::PageCache(PageCacheOptions options)
    : options_(std::move(options)),
      free_device_pages_(all_free(options_.num_device_pages)),
      free_host_pages_(all_free(options_.num_host_pages)),
      dirty_(options_.policy),
      clean_(options_.policy),
      on_host_(options_.policy) {
  assert(options_.page_size > 0);
}

std::optional<PageCache::Grant> PageCache::reserve(LeaseId id, TenantId tenant,
                                                   std::span<const std::int32_t> tokens,
                                                   PageDemand demand, TimePoint now) {
  assert(!leases_.contains(id));
  const std::vector<NodeId> chain = match(tenant, tokens);
  const auto num_new = num_new_pages(chain, demand);
  if (!num_new) return std::nullopt;

  for (const NodeId node : chain) {
    dequeue(node);
    nodes_[node].is_lifted = true;
  }
  Lease lease{.tenant = tenant, .pages = {}};
  Grant grant = take_chain(chain, lease, now);
  for (const NodeId node : chain) {
    nodes_[node].is_lifted = false;
    enqueue(node);
  }
  for (std::uint32_t i = 0; i < *num_new; ++i)
    lease.pages.push_back({.page = take_device_page(now)});
  for (const HeldPage& held : lease.pages) grant.pages.push_back(held.page);
  leases_.emplace(id, std::move(lease));
  return grant;
}

// Pages beyond the chain's; nullopt if there is no room for what is required.
std::optional<std::uint32_t> PageCache::num_new_pages(std::span<const NodeId> chain,
                                                      PageDemand demand) const {
  const auto num_known = static_cast<std::uint32_t>(chain.size());
  std::uint32_t available = num_available();
  std::uint32_t for_chain = 0;
  for (const NodeId id : chain) {
    const Node& node = nodes_[id];
    if (node.device_page == kNone) {
      for_chain += 1;
    } else if (node.num_holders == 0) {
      available -= 1;
    }
  }
  return pages_to_grant({.required = demand.required > num_known ? demand.required - num_known : 0,
                         .wanted = demand.wanted > num_known ? demand.wanted - num_known : 0,
                         .keep_free = demand.keep_free + for_chain},
                        available);
}

// Pages for what was found: as they are, loaded, or to be filled.
PageCache::Grant PageCache::take_chain(std::span<const NodeId> chain, Lease& lease,
                                       TimePoint now) {
  const std::uint32_t page_size = options_.page_size;
  Grant grant;
  for (const NodeId id : chain) {
    HeldPage held{.page = nodes_[id].device_page, .node = id, .is_private = false};
    nodes_[id].num_leases += 1;
    const std::uint32_t begin = grant.known_tokens;
    grant.known_tokens += page_size;
    if (held.page != kNone) {
      nodes_[id].num_holders += 1;
      grant.tokens_from_device += page_size;
    } else {
      held.page = take_device_page(now);
      held.is_private = true;
      if (nodes_[id].host_page != kNone) {
        load(held);
        grant.tokens_from_host += page_size;
      } else if (!grant.holes.empty() && grant.holes.back().end == begin) {
        grant.holes.back().end += page_size;
      } else {
        grant.holes.push_back({.begin = begin, .end = begin + page_size});
      }
    }
    lease.pages.push_back(held);
  }
  return grant;
}

// The beginning of `tokens` as far as something of it is still somewhere.
std::vector<PageCache::NodeId> PageCache::match(TenantId tenant,
                                                std::span<const std::int32_t> tokens) const {
  std::vector<NodeId> chain;
  if (!options_.keeps_prefixes || tokens.empty()) return chain;
  const std::size_t most = (tokens.size() - 1) / options_.page_size;
  NodeId parent = kNone;
  for (std::size_t i = 0; i < most; ++i) {
    const auto page_tokens = tokens.subspan(i * options_.page_size, options_.page_size);
    const NodeId node = find(tenant, parent, key_of(tenant, parent, page_tokens), page_tokens);
    if (node == kNone) break;
    chain.push_back(parent = node);
  }
  while (!chain.empty() && !has_page(chain.back())) chain.pop_back();
  return chain;
}

PageCache::NodeId PageCache::find(TenantId tenant, NodeId parent, const PageKey& key,
                                  std::span<const std::int32_t> tokens) const {
  const auto [begin, end] = by_key_.equal_range(key);
  for (auto found = begin; found != end; ++found) {
    const Node& node = nodes_[found->second];
    if (node.tenant == tenant && node.parent == parent &&
        std::equal(tokens.begin(), tokens.end(), node.tokens.begin(), node.tokens.end()))
      return found->second;
  }
  return kNone;
}

PageKey PageCache::key_of(TenantId tenant, NodeId parent,
                          std::span<const std::int32_t> tokens) const {
  const PageKey above =
      parent == kNone ? PageKey{.low = tenant, .high = 0} : nodes_[parent].key;
  PageKey key = page_key(options_.secret, above, tokens);
  if (options_.hash_bits >= 128) return key;
  assert(options_.hash_bits < 64);
  return PageKey{.low = key.low & ((1ULL << options_.hash_bits) - 1), .high = 0};
}

bool PageCache::has_page(NodeId node) const {
  return nodes_[node].device_page != kNone || nodes_[node].host_page != kNone;
}

std::optional<std::vector<std::uint32_t>> PageCache::extend(LeaseId id, PageDemand demand,
                                                            TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  const auto num_new = pages_to_grant(demand, num_available());
  if (!num_new) return std::nullopt;
  std::vector<std::uint32_t> pages;
  for (std::uint32_t i = 0; i < *num_new; ++i) {
    pages.push_back(take_device_page(now));
    found->second.pages.push_back({.page = pages.back()});
  }
  return pages;
}

void PageCache::commit(LeaseId id, std::uint32_t page_index,
                       std::span<const std::int32_t> page_tokens) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || !options_.keeps_prefixes) return;
  assert(page_tokens.size() == options_.page_size);
  Lease& lease = found->second;
  HeldPage& held = lease.pages.at(page_index);
  if (held.node == kNone) {
    const NodeId parent = page_index == 0 ? kNone : lease.pages[page_index - 1].node;
    const bool is_first = page_index == 0;
    if (!is_first && (parent == kNone || nodes_[parent].is_void)) return;
    const PageKey key = key_of(lease.tenant, parent, page_tokens);
    held.node = find(lease.tenant, parent, key, page_tokens);
    if (held.node == kNone) held.node = add_node(lease.tenant, parent, key, page_tokens);
    nodes_[held.node].num_leases += 1;
  }
  // Somebody else may have computed the same meanwhile: then theirs is shared.
  if (held.is_private && nodes_[held.node].device_page == kNone) adopt(held);
}

PageCache::NodeId PageCache::add_node(TenantId tenant, NodeId parent, const PageKey& key,
                                      std::span<const std::int32_t> tokens) {
  if (free_nodes_.empty()) {
    free_nodes_.push_back(static_cast<NodeId>(nodes_.size()));
    nodes_.emplace_back();
  }
  const NodeId id = free_nodes_.back();
  free_nodes_.pop_back();
  Node& node = nodes_[id];
  node.is_used = true;
  node.tenant = tenant;
  node.parent = parent;
  node.key = key;
  node.tokens.assign(tokens.begin(), tokens.end());
  by_key_.emplace(key, id);
  if (parent == kNone) return id;
  node.depth = nodes_[parent].depth + 1;
  if (nodes_[parent].num_children++ > 0) change_leaves(parent, 1);
  return id;
}

// Forgets the node, and those above it, that nobody can find anything by.
void PageCache::prune(NodeId id) {
  while (id != kNone) {
    Node& node = nodes_[id];
    if (has_page(id) || node.num_children > 0 || node.num_leases > 0) return;
    if (!node.is_void) {
      const auto [begin, end] = by_key_.equal_range(node.key);
      by_key_.erase(std::find_if(begin, end, [id](const auto& e) { return e.second == id; }));
    }
    const NodeId parent = node.parent;
    node = Node{};
    free_nodes_.push_back(id);
    if (parent != kNone && --nodes_[parent].num_children > 0) change_leaves(parent, -1);
    id = parent;
  }
}

void PageCache::change_leaves(NodeId id, int difference) {
  for (; id != kNone; id = nodes_[id].parent) {
    dequeue(id);
    nodes_[id].num_leaves += static_cast<std::uint32_t>(difference);
    enqueue(id);
  }
}

std::uint32_t PageCache::num_available() const {
  return static_cast<std::uint32_t>(free_device_pages_.size() + dirty_.size() + clean_.size());
}

std::uint32_t PageCache::take_device_page(TimePoint now) {
  if (free_device_pages_.empty()) {
    const auto dirty = dirty_.lowest(now);
    const auto clean = clean_.lowest(now);
    assert(dirty || clean);
    const bool takes_dirty =
        dirty && (!clean || dirty_.value(*dirty, now) < clean_.value(*clean, now));
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
    } else {
      statistics_.dropped_from_device += 1;
    }
  }
  dequeue(id);
  statistics_.reclaimed += nodes_[id].host_page != kNone ? 1 : 0;
  free_device_pages_.push_back(std::exchange(nodes_[id].device_page, kNone));
  enqueue(id);
  prune(id);
}

// A free one, or that of a page worth less than `value`.
std::optional<std::uint32_t> PageCache::take_host_page(double value, TimePoint now) {
  if (free_host_pages_.empty()) {
    const auto victim = on_host_.lowest(now);
    if (!victim || on_host_.value(*victim, now) >= value) return std::nullopt;
    dequeue(*victim);
    free_host_pages_.push_back(std::exchange(nodes_[*victim].host_page, kNone));
    enqueue(*victim);
    statistics_.dropped_from_host += 1;
    prune(*victim);
  }
  const std::uint32_t page = free_host_pages_.back();
  free_host_pages_.pop_back();
  return page;
}

void PageCache::store(NodeId id, std::uint32_t host_page) {
  dequeue(id);
  Node& node = nodes_[id];
  node.host_page = host_page;
  copies_.push_back({.direction = PageCopy::Direction::kStore,
                     .device_page = node.device_page,
                     .host_page = host_page,
                     .generation = node.generation});
  statistics_.stored += 1;
  enqueue(id);
}

void PageCache::load(HeldPage& held) {
  Node& node = nodes_[held.node];
  copies_.push_back({.direction = PageCopy::Direction::kLoad,
                     .device_page = held.page,
                     .host_page = node.host_page,
                     .generation = node.generation});
  statistics_.loaded += 1;
  node.device_page = held.page;
  node.num_holders = 1;
  held.is_private = false;
}

// The node has no device page yet: the lease's own becomes it.
void PageCache::adopt(HeldPage& held) {
  dequeue(held.node);
  Node& node = nodes_[held.node];
  node.device_page = held.page;
  node.num_holders = 1;
  if (node.host_page == kNone) node.generation = ++last_generation_;
  held.is_private = false;
  enqueue(held.node);
}

void PageCache::release(LeaseId id, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  const std::vector<HeldPage> pages = std::move(found->second.pages);
  leases_.erase(found);
  for (auto held = pages.rbegin(); held != pages.rend(); ++held) let_go(*held, now);
}

void PageCache::let_go(const HeldPage& held, TimePoint now) {
  if (held.is_private) free_device_pages_.push_back(held.page);
  if (held.node == kNone) return;
  dequeue(held.node);
  Node& node = nodes_[held.node];
  node.num_leases -= 1;
  node.last_used = now;
  if (!held.is_private && --node.num_holders == 0 && node.is_void)
    free_device_pages_.push_back(std::exchange(node.device_page, kNone));
  enqueue(held.node);
  prune(held.node);
}

void PageCache::copy_ahead(std::uint32_t max_copies, TimePoint now) {
  const auto enough =
      static_cast<std::size_t>(options_.copy_ahead_below * options_.num_device_pages);
  while (max_copies > 0 && free_device_pages_.size() + clean_.size() < enough) {
    const auto dirty = dirty_.lowest(now);
    if (!dirty) return;
    const auto host_page = take_host_page(dirty_.value(*dirty, now), now);
    if (!host_page) return;
    store(*dirty, *host_page);
    max_copies -= 1;
  }
}

void PageCache::replace_device(std::uint32_t num_device_pages) {
  options_.num_device_pages = num_device_pages;
  free_device_pages_ = all_free(num_device_pages);
  leases_.clear();
  copies_.clear();
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (!nodes_[id].is_used) continue;
    dequeue(id);
    nodes_[id].device_page = kNone;
    nodes_[id].num_leases = nodes_[id].num_holders = 0;
    enqueue(id);
  }
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].is_used) prune(id);
}

// The tokens get a new node should they be computed again; this one goes with
// its holders.
void PageCache::void_contents(std::uint64_t generation) {
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    if (!node.is_used || node.is_void || node.generation != generation) continue;
    if (!has_page(id)) return;
    dequeue(id);
    if (node.host_page != kNone) free_host_pages_.push_back(std::exchange(node.host_page, kNone));
    if (node.num_holders == 0) {
      if (node.device_page != kNone)
        free_device_pages_.push_back(std::exchange(node.device_page, kNone));
      prune(id);
      return;
    }
    const auto [begin, end] = by_key_.equal_range(node.key);
    by_key_.erase(std::find_if(begin, end, [id](const auto& e) { return e.second == id; }));
    node.is_void = true;
    return;
  }
}

std::vector<PageCopy> PageCache::take_copies() { return std::exchange(copies_, {}); }

void PageCache::enqueue(NodeId id) {
  const Node& node = nodes_[id];
  if (node.is_lifted || node.is_void) return;
  EvictionEntry entry{.id = id, .worth = worth(node), .depth = node.depth,
                      .last_used = node.last_used};
  if (node.device_page != kNone && node.num_holders == 0)
    (node.host_page == kNone ? dirty_ : clean_).insert(entry);
  if (node.host_page == kNone) return;
  if (node.num_holders > 0) entry.worth *= kWorthOfSpare;
  on_host_.insert(entry);
}

void PageCache::dequeue(NodeId id) {
  for (EvictionQueue* queue : {&dirty_, &clean_, &on_host_})
    if (queue->contains(id)) queue->erase(id);
}

double PageCache::worth(const Node& node) const {
  return options_.cost.of_page(node.depth) * node.num_leaves;
}

PageCounts PageCache::counts() const {
  PageCounts counts;
  counts.total = options_.num_device_pages;
  counts.free = static_cast<std::uint32_t>(free_device_pages_.size());
  counts.cached = static_cast<std::uint32_t>(dirty_.size() + clean_.size());
  counts.running = counts.total - counts.free - counts.cached;
  counts.host_total = options_.num_host_pages;
  counts.host_free = static_cast<std::uint32_t>(free_host_pages_.size());
  return counts;
}

}  // namespace troupe
