// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_leases.hpp"

#include <cassert>
#include <utility>

#include "policy/pages/host_traffic.hpp"
#include "policy/pages/page_disposal.hpp"

namespace troupe {
namespace {

// Pages that a lease has room for beyond its first ones, as most answers need no more.
constexpr std::size_t kUsualGrowth = 16;

}  // namespace

std::optional<PageGrant> PageLeases::reserve(WorkerIndex worker, LeaseId id, TenantId tenant,
                                             std::span<const std::int32_t> tokens, PageDemand demand,
                                             TimePoint now, QuotaId quota) {
  assert(!book_.contains(id));
  const PrefixSearch::Found found = PrefixSearch(places_).find(worker, tenant, tokens, false);
  const auto num_new = num_new_pages(worker, found.chain, demand);
  if (!num_new) return std::nullopt;

  std::vector<NodeId> lifted = found.chain;
  const std::size_t num_pages = found.chain.size() + *num_new;
  const bool has_head = found.head != kNoNode && *num_new > 0 && has_room_for_head(worker, found);
  if (has_head) lifted.push_back(found.head);
  places_.own(lifted, quota);
  places_.lift(worker, lifted);
  PageLease lease{.worker = worker, .tenant = tenant, .quota = quota, .pages = {}};
  lease.pages.reserve(num_pages + kUsualGrowth);
  PageGrant grant = take_chain(found.chain, lease, now);
  if (has_head) take_head(found, lease, grant, now);
  places_.put_back(lifted);
  while (lease.pages.size() < num_pages)
    lease.pages.push_back({.page = HostTraffic(places_).take_device_page(worker, quota, now)});
  grant.pages.reserve(num_pages + kUsualGrowth);
  for (const HeldPage& held : lease.pages) grant.pages.push_back(held.page);
  book_.add(id, std::move(lease));
  return grant;
}

// Pages beyond the chain's; nullopt if there is no room for what is required.
std::optional<std::uint32_t> PageLeases::num_new_pages(WorkerIndex worker, std::span<const NodeId> chain,
                                                       PageDemand demand) const {
  const auto num_known = static_cast<std::uint32_t>(chain.size());
  std::uint32_t available = places_.tiers().device(worker).num_available();
  std::uint32_t for_chain = 0;
  for (const NodeId id : chain) {
    const DevicePage* const found = places_[id].on(worker);
    if (!found) {
      for_chain += 1;
    } else if (found->num_holders == 0) {
      available -= 1;
    }
  }
  return pages_to_grant({.required = demand.required > num_known ? demand.required - num_known : 0,
                         .wanted = demand.wanted > num_known ? demand.wanted - num_known : 0,
                         .keep_free = demand.keep_free + for_chain},
                        available);
}

// Pages for what was found: as they are, loaded, or to be filled.
PageGrant PageLeases::take_chain(std::span<const NodeId> chain, PageLease& lease, TimePoint now) {
  const std::uint32_t page_size = places_.options().page_size;
  const std::vector<bool> is_worth_loading = PrefixSearch(places_).worth_loading(lease.worker, chain, false);
  PageGrant grant;
  for (const NodeId id : chain) {
    HeldPage held{.page = 0, .node = id, .is_private = false};
    places_[id].num_leases += 1;
    const std::uint32_t begin = grant.known_tokens;
    grant.known_tokens += page_size;
    if (DevicePage* const found = places_[id].on(lease.worker)) {
      held.page = found->page;
      found->num_holders += 1;
      grant.tokens_from_device += page_size;
    } else {
      held.page = HostTraffic(places_).take_device_page(lease.worker, lease.quota, now);
      held.is_private = true;
      if (is_worth_loading[begin / page_size]) {
        HostTraffic(places_).load(lease.worker, id, held.page);
        places_[id].add({.worker = lease.worker, .page = held.page, .num_holders = 1});
        held.is_private = false;
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

// Beside the one that it is copied from.
bool PageLeases::has_room_for_head(WorkerIndex worker, const PrefixSearch::Found& found) const {
  std::uint32_t num_needed = 1;
  const auto is_cached = [&](NodeId node) {
    const DevicePage* const page = places_[node].on(worker);
    return page && page->num_holders == 0;
  };
  for (const NodeId id : found.chain) num_needed += is_cached(id) || !places_[id].on(worker) ? 1 : 0;
  num_needed += is_cached(found.head) ? 1 : 0;
  return places_.tiers().device(worker).num_available() >= num_needed;
}

// A page of the lease's own, that begins with what was found.
void PageLeases::take_head(const PrefixSearch::Found& found, PageLease& lease, PageGrant& grant,
                           TimePoint now) {
  const WorkerIndex worker = lease.worker;
  const std::uint32_t page = HostTraffic(places_).take_device_page(worker, lease.quota, now);
  PagePlace& place = places_[found.head];
  place.last_used = now;
  if (const DevicePage* const source = place.on(worker)) {
    places_.tiers().device(worker).queue(
        {.direction = PageCopy::kWithin, .device_page = page, .from_page = source->page});
    grant.tokens_from_device += found.num_head_tokens;
  } else {
    HostTraffic(places_).load(worker, found.head, page);
    grant.tokens_from_host += found.num_head_tokens;
  }
  places_.statistics().heads += 1;
  grant.known_tokens += found.num_head_tokens;
  lease.pages.push_back({.page = page});
}

std::optional<std::vector<std::uint32_t>> PageLeases::extend(LeaseId id, PageDemand demand, TimePoint now) {
  PageLease* const lease = book_.find(id);
  if (!lease) return std::nullopt;
  const WorkerIndex worker = lease->worker;
  const auto num_new = pages_to_grant(demand, places_.tiers().device(worker).num_available());
  if (!num_new) return std::nullopt;
  std::vector<std::uint32_t> pages;
  pages.reserve(*num_new);
  for (std::uint32_t i = 0; i < *num_new; ++i) {
    pages.push_back(HostTraffic(places_).take_device_page(worker, lease->quota, now));
    lease->pages.push_back({.page = pages.back()});
  }
  return pages;
}

void PageLeases::commit(LeaseId id, std::uint32_t page_index, std::span<const std::int32_t> page_tokens,
                        TimePoint now) {
  PageLease* const found = book_.find(id);
  if (!found || !places_.options().serving.keeps_prefixes()) return;
  assert(!page_tokens.empty() && page_tokens.size() <= places_.options().page_size);
  PageLease& lease = *found;
  HeldPage& held = lease.pages.at(page_index);
  const bool is_first = page_index == 0;
  const NodeId parent = is_first ? kNoNode : lease.pages[page_index - 1].node;
  if (held.node == kNoNode) {
    if (!is_first && (parent == kNoNode || places_[parent].is_void || places_.is_tail(parent))) return;
    if (is_covered(lease, parent, page_tokens)) return;
  }
  if (!held.is_private) return;
  PageDisposal(places_).drop_tails(lease.tenant, parent, page_tokens, page_tokens.size() - 1);
  if (held.node == kNoNode) {
    held.node = places_.tree().find(lease.tenant, parent, page_tokens);
    if (held.node != kNoNode) places_.own({&held.node, 1}, lease.quota);
    if (held.node == kNoNode) held.node = places_.add(lease.tenant, lease.quota, parent, page_tokens);
    places_[held.node].num_leases += 1;
  }
  // Another sequence may have computed the same meanwhile: then that is shared.
  const bool is_all_of_it = places_.tree()[held.node].tokens.size() == page_tokens.size();
  if (!is_all_of_it || places_[held.node].on(lease.worker)) return;
  // A hole's node may be of a quota that its tenant got since this lease began; the page counts as the
  // lease's.
  places_.own({&held.node, 1}, lease.quota);
  adopt(lease.worker, held, now);
}

// A tail that a longer page on the same device begins with is of no use.
bool PageLeases::is_covered(const PageLease& lease, NodeId parent,
                            std::span<const std::int32_t> tokens) const {
  if (tokens.size() == places_.options().page_size) return false;
  for (const auto& [node, num_shared] :
       places_.tree().nearest(lease.tenant, parent, tokens, PrefixSearch::kMostLookedAt))
    if (num_shared == tokens.size() && places_.tree()[node].tokens.size() > tokens.size() &&
        places_[node].on(lease.worker))
      return true;
  return false;
}

// The node has no page on this device yet: the lease's own becomes it.
void PageLeases::adopt(WorkerIndex worker, HeldPage& held, TimePoint now) {
  places_.dequeue(held.node, worker);
  PagePlace& place = places_[held.node];
  if (place.on_devices.empty() && place.host_page == PagePlace::kNone && place.disk_page == PagePlace::kNone)
    place.generation = places_.new_generation();
  place.add({.worker = worker, .page = held.page, .num_holders = 1});
  place.last_used = now;
  held.is_private = false;
  places_.enqueue(held.node, worker);
}

void PageLeases::release(LeaseId id, TimePoint now) {
  const auto lease = book_.take(id);
  if (!lease) return;
  for (auto held = lease->pages.rbegin(); held != lease->pages.rend(); ++held) let_go(*lease, *held, now);
}

void PageLeases::let_go(const PageLease& lease, const HeldPage& held, TimePoint now) {
  const WorkerIndex worker = lease.worker;
  if (held.is_private) places_.tiers().device(worker).put_free(held.page, lease.quota);
  if (held.node == kNoNode) return;
  places_.dequeue(held.node, worker);
  PagePlace& place = places_[held.node];
  place.num_leases -= 1;
  place.last_used = now;
  if (!held.is_private && --place.on(worker)->num_holders == 0 && place.is_void)
    places_.free_device_page(held.node, worker);
  places_.enqueue(held.node, worker);
  places_.prune(held.node);
}

}  // namespace troupe
