// SPDX-License-Identifier: Apache-2.0
#include "policy/page_cache.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {
PageCache::PageCache(PageCacheOptions options)
    : options_(std::move(options)),
      restore_costs_{
          .recompute = options_.cost, .host = options_.load_from_host, .disk = options_.load_from_disk},
      free_device_pages_(all_free(options_.num_device_pages)),
      free_host_pages_(all_free(options_.num_host_pages)),
      free_disk_pages_(all_free(options_.num_disk_pages)),
      dirty_(options_.policy),
      clean_(options_.policy),
      on_host_(options_.policy),
      on_disk_(options_.policy),
      loose_(options_.policy),
      backed_(options_.policy),
      host_owners_(options_.num_host_pages, kNone),
      num_copies_under_way_(options_.num_host_pages, 0),
      next_generation_(options_.first_generation) {
  assert(options_.page_size > 0);
  // Tables that grow as a whole would stall; memory is used when nodes are.
  const std::size_t num_pages = free_device_pages_.size() + free_host_pages_.size() + free_disk_pages_.size();
  nodes_.reserve(num_pages);
  by_key_.reserve(num_pages);
}

std::vector<std::uint32_t> PageCache::all_free(std::uint32_t num_pages) {
  std::vector<std::uint32_t> pages;
  pages.reserve(num_pages);
  for (std::uint32_t page = num_pages; page > 0; --page) pages.push_back(page - 1);
  return pages;
}

std::optional<PageCache::Grant> PageCache::reserve(LeaseId id, TenantId tenant,
                                                   std::span<const std::int32_t> tokens, PageDemand demand,
                                                   TimePoint now) {
  assert(!leases_.contains(id));
  const std::vector<NodeId> chain = match(tenant, tokens);
  const auto num_new = num_new_pages(chain, demand);
  if (!num_new) return std::nullopt;

  lift(chain);
  Lease lease{.tenant = tenant, .pages = {}};
  Grant grant = take_chain(chain, lease, now);
  put_back(chain);
  for (std::uint32_t i = 0; i < *num_new; ++i) lease.pages.push_back({.page = take_device_page(now)});
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
PageCache::Grant PageCache::take_chain(std::span<const NodeId> chain, Lease& lease, TimePoint now) {
  const std::uint32_t page_size = options_.page_size;
  const std::vector<bool> is_worth_loading = worth_loading(chain, false);
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
      if (is_worth_loading[begin / page_size]) {
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

// By page. from_disk: those on disk count as well as those on the host; else
// what is on disk only is out of reach.
std::vector<bool> PageCache::worth_loading(std::span<const NodeId> chain, bool from_disk) const {
  std::vector<KvPlace> places;
  places.reserve(chain.size());
  for (const NodeId id : chain) {
    const Node& node = nodes_[id];
    KvPlace place = KvPlace::kNowhere;
    if (node.device_page != kNone) {
      place = KvPlace::kDevice;
    } else if (is_on_host(node)) {
      place = KvPlace::kHost;
    } else if (from_disk && is_on_disk(node)) {
      place = KvPlace::kDisk;
    }
    places.push_back(place);
  }
  return pages_to_load(places, restore_costs_);
}

// The beginning of `tokens` as far as something of it is still somewhere.
std::vector<PageCache::NodeId> PageCache::match(TenantId tenant, std::span<const std::int32_t> tokens) const {
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

PageKey PageCache::key_of(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) const {
  const PageKey above = parent == kNone ? PageKey{.low = tenant, .high = 0} : nodes_[parent].key;
  PageKey key = page_key(options_.secret, above, tokens);
  if (options_.hash_bits >= 128) return key;
  assert(options_.hash_bits < 64);
  return PageKey{.low = key.low & ((1ULL << options_.hash_bits) - 1), .high = 0};
}

bool PageCache::has_page(NodeId id) const {
  const Node& node = nodes_[id];
  return node.device_page != kNone || is_on_host(node) || is_on_disk(node);
}

std::optional<std::vector<std::uint32_t>> PageCache::extend(LeaseId id, PageDemand demand, TimePoint now) {
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

void PageCache::commit(LeaseId id, std::uint32_t page_index, std::span<const std::int32_t> page_tokens) {
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
    if (!node.is_void) unfind(id);
    const NodeId parent = node.parent;
    node = Node{};
    free_nodes_.push_back(id);
    if (parent != kNone && --nodes_[parent].num_children > 0) change_leaves(parent, -1);
    id = parent;
  }
}

void PageCache::unfind(NodeId id) {
  const auto [begin, end] = by_key_.equal_range(nodes_[id].key);
  by_key_.erase(std::find_if(begin, end, [id](const auto& e) { return e.second == id; }));
}

void PageCache::change_leaves(NodeId id, int difference) {
  for (; id != kNone; id = nodes_[id].parent) {
    nodes_[id].num_leaves += static_cast<std::uint32_t>(difference);
    reweigh(id);
  }
}

// The node has no device page yet: the lease's own becomes it.
void PageCache::adopt(HeldPage& held) {
  dequeue(held.node);
  Node& node = nodes_[held.node];
  node.device_page = held.page;
  node.num_holders = 1;
  if (node.host_page == kNone && node.disk_page == kNone) node.generation = next_generation_++;
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

}  // namespace troupe
