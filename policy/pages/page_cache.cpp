// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_cache.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {
namespace {

// Pages with the longest beginnings in common that are looked at for a head.
constexpr std::size_t kMostLookedAt = 32;

}  // namespace

PageCache::PageCache(PageCacheOptions options)
    : options_(std::move(options)),
      restore_costs_{
          .recompute = options_.cost, .host = options_.load_from_host, .disk = options_.load_from_disk},
      tree_(options_.page_size),
      host_(options_.serving, options_.num_host_pages),
      disk_(options_.serving, options_.num_disk_pages),
      next_generation_(options_.first_generation) {
  assert(options_.page_size > 0);
  make_room_for(std::size_t{options_.num_host_pages} + options_.num_disk_pages);
}

void PageCache::add_worker(WorkerIndex worker, std::uint32_t num_device_pages) {
  if (worker >= devices_.size()) devices_.resize(std::size_t{worker} + 1);
  assert(!devices_[worker]);
  devices_[worker].emplace(options_.serving, num_device_pages);
  make_room_for(num_device_pages);
}

// Tables that grow as a whole would stall; memory is used when nodes are.
void PageCache::make_room_for(std::size_t num_pages) {
  num_pages_ += num_pages;
  tree_.reserve(num_pages_);
  if (num_pages_ > places_.capacity()) places_.reserve(std::max(num_pages_, places_.capacity() * 2));
}

void PageCache::remove_worker(WorkerIndex worker) {
  std::erase_if(leases_, [&](const auto& entry) {
    const Lease& lease = entry.second;
    if (lease.worker != worker) return false;
    for (const HeldPage& held : lease.pages)
      if (held.node != kNoNode) places_[held.node].num_leases -= 1;
    return true;
  });
  for (const NodeId lost : host_.drop_copies_of(worker)) drop_host_page(lost);
  for (NodeId id = 0; id < tree_.end(); ++id) {
    if (!tree_[id].is_used) continue;
    dequeue(id);
    std::erase_if(places_[id].on_devices, [&](const DevicePage& page) { return page.worker == worker; });
    enqueue(id);
  }
  for (NodeId id = 0; id < tree_.end(); ++id)
    if (tree_[id].is_used) prune(id);
  num_pages_ -= device(worker).num_pages();
  devices_[worker].reset();
}

void PageCache::replace_worker(WorkerIndex worker, std::uint32_t num_device_pages) {
  remove_worker(worker);
  add_worker(worker, num_device_pages);
}

std::optional<PageCache::Grant> PageCache::reserve(WorkerIndex worker, LeaseId id, TenantId tenant,
                                                   std::span<const std::int32_t> tokens, PageDemand demand,
                                                   TimePoint now, QuotaId quota) {
  assert(!leases_.contains(id));
  const Found found = find(worker, tenant, tokens, false);
  const auto num_new = num_new_pages(worker, found.chain, demand);
  if (!num_new) return std::nullopt;

  std::vector<NodeId> lifted = found.chain;
  const bool has_head = found.head != kNoNode && *num_new > 0 && has_room_for_head(worker, found);
  if (has_head) lifted.push_back(found.head);
  own(lifted, quota);
  lift(worker, lifted);
  Lease lease{.worker = worker, .tenant = tenant, .quota = quota, .pages = {}};
  Grant grant = take_chain(found.chain, lease, now);
  if (has_head) take_head(found, lease, grant, now);
  put_back(lifted);
  while (lease.pages.size() < found.chain.size() + *num_new)
    lease.pages.push_back({.page = take_device_page(worker, quota, now)});
  for (const HeldPage& held : lease.pages) grant.pages.push_back(held.page);
  leases_.emplace(id, std::move(lease));
  return grant;
}

// Pages beyond the chain's; nullopt if there is no room for what is required.
std::optional<std::uint32_t> PageCache::num_new_pages(WorkerIndex worker, std::span<const NodeId> chain,
                                                      PageDemand demand) const {
  const auto num_known = static_cast<std::uint32_t>(chain.size());
  std::uint32_t available = devices_.at(worker)->num_available();
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
PageCache::Grant PageCache::take_chain(std::span<const NodeId> chain, Lease& lease, TimePoint now) {
  const std::uint32_t page_size = options_.page_size;
  const std::vector<bool> is_worth_loading = worth_loading(lease.worker, chain, false);
  Grant grant;
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
      held.page = take_device_page(lease.worker, lease.quota, now);
      held.is_private = true;
      if (is_worth_loading[begin / page_size]) {
        load(lease.worker, held);
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
bool PageCache::has_room_for_head(WorkerIndex worker, const Found& found) const {
  std::uint32_t num_needed = 1;
  const auto is_cached = [&](NodeId node) {
    const DevicePage* const page = places_[node].on(worker);
    return page && page->num_holders == 0;
  };
  for (const NodeId id : found.chain) num_needed += is_cached(id) || !places_[id].on(worker) ? 1 : 0;
  num_needed += is_cached(found.head) ? 1 : 0;
  return devices_.at(worker)->num_available() >= num_needed;
}

// A page of the lease's own, that begins with what was found.
void PageCache::take_head(const Found& found, Lease& lease, Grant& grant, TimePoint now) {
  const WorkerIndex worker = lease.worker;
  const std::uint32_t page = take_device_page(worker, lease.quota, now);
  Place& place = places_[found.head];
  place.last_used = now;
  if (const DevicePage* const source = place.on(worker)) {
    device(worker).queue({.direction = PageCopy::kWithin, .device_page = page, .from_page = source->page});
    grant.tokens_from_device += found.num_head_tokens;
  } else {
    queue_copy(worker, {.direction = PageCopy::kLoad,
                        .device_page = page,
                        .host_page = place.host_page,
                        .generation = place.generation});
    statistics_.loaded += 1;
    grant.tokens_from_host += found.num_head_tokens;
  }
  statistics_.heads += 1;
  grant.known_tokens += found.num_head_tokens;
  lease.pages.push_back({.page = page});
}

// By page. from_disk: those on disk count as well as those on the host; else
// what is on disk only is out of reach.
std::vector<bool> PageCache::worth_loading(WorkerIndex worker, std::span<const NodeId> chain,
                                           bool from_disk) const {
  std::vector<KvPlace> places;
  places.reserve(chain.size());
  for (const NodeId id : chain) {
    const Place& place = places_[id];
    if (place.on(worker)) {
      places.push_back(KvPlace::kDevice);
    } else if (can_load(place, worker)) {
      places.push_back(KvPlace::kHost);
    } else {
      places.push_back(from_disk && place.is_on_disk() ? KvPlace::kDisk : KvPlace::kNowhere);
    }
  }
  return pages_to_load(places, restore_costs_);
}

// As far as this worker may have something of it; the rest is computed.
PageCache::Found PageCache::find(WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens,
                                 bool from_disk) const {
  Found found{.chain = match(tenant, tokens)};
  while (true) {
    find_head(found, worker, tenant, tokens, from_disk);
    if (found.head != kNoNode || found.chain.empty()) return found;
    const Place& last = places_[found.chain.back()];
    if (last.on(worker) || can_load(last, worker) || last.is_on_disk()) return found;
    found.chain.pop_back();
  }
}

// Below the chain's last node: the page with the longest beginning in common that
// can be copied. from_disk: or fetched.
void PageCache::find_head(Found& found, WorkerIndex worker, TenantId tenant,
                          std::span<const std::int32_t> tokens, bool from_disk) const {
  const std::size_t begin = found.chain.size() * options_.page_size;
  if (!options_.serving.keeps_prefixes() || tokens.size() <= begin + 1) return;
  const auto rest =
      tokens.subspan(begin, std::min<std::size_t>(options_.page_size, tokens.size() - 1 - begin));
  const NodeId parent = found.chain.empty() ? kNoNode : found.chain.back();
  for (const auto& [node, num_shared] : tree_.nearest(tenant, parent, rest, kMostLookedAt)) {
    if (num_shared < found.num_head_tokens) return;
    const Place& place = places_[node];
    const bool is_here = place.on(worker);
    const bool is_loaded = !is_here && can_load(place, worker) &&
                           is_head_worth_loading(node, num_shared, options_.load_from_host);
    const bool is_fetched = !is_here && from_disk && place.is_on_disk() && !place.is_on_host() &&
                            is_head_worth_loading(node, num_shared, options_.load_from_disk);
    if (!is_here && (found.head != kNoNode || (!is_loaded && !is_fetched))) continue;
    found.head = node;
    found.num_head_tokens = num_shared;
    if (is_here) return;
  }
}

// As a trip of its own.
bool PageCache::is_head_worth_loading(NodeId head, std::uint32_t num_tokens, const LoadCost& load) const {
  const double share = static_cast<double>(num_tokens) / options_.page_size;
  const double gain = options_.cost.of_page(tree_[head].depth) * share;
  return load == LoadCost{} || gain > load.fixed + load.per_page;
}

// All but the last token may be known.
std::vector<NodeId> PageCache::match(TenantId tenant, std::span<const std::int32_t> tokens) const {
  if (!options_.serving.keeps_prefixes() || tokens.empty()) return {};
  return tree_.match(tenant, tokens.first(tokens.size() - 1));
}

PageCounts& PageCounts::operator+=(const PageCounts& other) {
  total += other.total;
  free += other.free;
  cached += other.cached;
  running += other.running;
  host_total += other.host_total;
  host_free += other.host_free;
  disk_total += other.disk_total;
  disk_free += other.disk_free;
  return *this;
}

KnownTokens& KnownTokens::operator+=(const KnownTokens& other) {
  on_device += other.on_device;
  on_host += other.on_host;
  on_disk += other.on_disk;
  return *this;
}

const KnownTokens& PageAffinity::of(WorkerIndex worker) const {
  for (const OfWorker& each : near)
    if (each.worker == worker) return each.known;
  return elsewhere;
}

// For each worker that is met, what it does not find as the others do.
PageAffinity PageCache::affinity(TenantId tenant, std::span<const std::int32_t> tokens) const {
  PageAffinity affinity;
  std::vector<KnownTokens> less;  // by index in near: on its device, so not needed elsewhere
  const auto near = [&](WorkerIndex worker) {
    std::size_t i = 0;
    while (i < affinity.near.size() && affinity.near[i].worker != worker) ++i;
    if (i == affinity.near.size()) {
      affinity.near.push_back({.worker = worker, .known = {}});
      less.emplace_back();
    }
    return i;
  };
  for (const NodeId id : match(tenant, tokens)) {
    const Place& place = places_[id];
    KnownTokens others;
    if (is_settled(place)) {
      others.on_host = options_.page_size;
    } else if (place.is_on_disk()) {
      others.on_disk = options_.page_size;
    }
    affinity.elsewhere += others;
    for (const DevicePage& page : place.on_devices) {
      const std::size_t i = near(page.worker);
      affinity.near[i].known.on_device += options_.page_size;
      less[i] += others;
    }
    if (!place.is_on_host() || is_settled(place)) continue;
    const WorkerIndex storing = host_.storing_worker(place.host_page);
    if (place.on(storing)) continue;
    const std::size_t i = near(storing);
    affinity.near[i].known.on_host += options_.page_size;
    less[i] += others;
  }
  for (std::size_t i = 0; i < less.size(); ++i) {
    KnownTokens& known = affinity.near[i].known;
    known.on_host += affinity.elsewhere.on_host - less[i].on_host;
    known.on_disk += affinity.elsewhere.on_disk - less[i].on_disk;
  }
  return affinity;
}

const PageCache::DevicePage* PageCache::Place::on(WorkerIndex worker) const {
  const auto found =
      std::lower_bound(on_devices.begin(), on_devices.end(), worker,
                       [](const DevicePage& page, WorkerIndex wanted) { return page.worker < wanted; });
  return found != on_devices.end() && found->worker == worker ? &*found : nullptr;
}

void PageCache::Place::add(const DevicePage& page) {
  const auto after = std::find_if(on_devices.begin(), on_devices.end(),
                                  [&](const DevicePage& each) { return each.worker > page.worker; });
  on_devices.insert(after, page);
}

PageCache::DevicePage* PageCache::Place::on(WorkerIndex worker) {
  return const_cast<DevicePage*>(std::as_const(*this).on(worker));
}

bool PageCache::Place::is_held() const {
  return std::any_of(on_devices.begin(), on_devices.end(),
                     [](const DevicePage& page) { return page.num_holders > 0; });
}

// The host page has its contents, not only soon.
bool PageCache::is_settled(const Place& place) const {
  return place.is_on_host() && host_.is_settled(place.host_page);
}

bool PageCache::can_load(const Place& place, WorkerIndex worker) const {
  return place.is_on_host() && host_.may_load(worker, place.host_page);
}

std::optional<std::vector<std::uint32_t>> PageCache::extend(LeaseId id, PageDemand demand, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  const WorkerIndex worker = found->second.worker;
  const auto num_new = pages_to_grant(demand, device(worker).num_available());
  if (!num_new) return std::nullopt;
  std::vector<std::uint32_t> pages;
  for (std::uint32_t i = 0; i < *num_new; ++i) {
    pages.push_back(take_device_page(worker, found->second.quota, now));
    found->second.pages.push_back({.page = pages.back()});
  }
  return pages;
}

void PageCache::commit(LeaseId id, std::uint32_t page_index, std::span<const std::int32_t> page_tokens,
                       TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || !options_.serving.keeps_prefixes()) return;
  assert(!page_tokens.empty() && page_tokens.size() <= options_.page_size);
  Lease& lease = found->second;
  HeldPage& held = lease.pages.at(page_index);
  const bool is_first = page_index == 0;
  const NodeId parent = is_first ? kNoNode : lease.pages[page_index - 1].node;
  if (held.node == kNoNode) {
    if (!is_first && (parent == kNoNode || places_[parent].is_void || is_tail(parent))) return;
    if (is_covered(lease, parent, page_tokens)) return;
  }
  if (!held.is_private) return;
  drop_tails(lease.tenant, parent, page_tokens, page_tokens.size() - 1);
  if (held.node == kNoNode) {
    held.node = tree_.find(lease.tenant, parent, page_tokens);
    if (held.node != kNoNode) own({&held.node, 1}, lease.quota);
    if (held.node == kNoNode) held.node = add_node(lease.tenant, lease.quota, parent, page_tokens);
    places_[held.node].num_leases += 1;
  }
  // Another sequence may have computed the same meanwhile: then that is shared.
  const bool is_all_of_it = tree_[held.node].tokens.size() == page_tokens.size();
  if (is_all_of_it && !places_[held.node].on(lease.worker)) adopt(lease.worker, held, now);
}

// A tail that a longer page on the same device begins with is of no use.
bool PageCache::is_covered(const Lease& lease, NodeId parent, std::span<const std::int32_t> tokens) const {
  if (tokens.size() == options_.page_size) return false;
  for (const auto& [node, num_shared] : tree_.nearest(lease.tenant, parent, tokens, kMostLookedAt))
    if (num_shared == tokens.size() && tree_[node].tokens.size() > tokens.size() &&
        places_[node].on(lease.worker))
      return true;
  return false;
}

// Tails of at most so many tokens that are the beginnings of these, and that no lease
// ends with.
void PageCache::drop_tails(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens,
                           std::size_t most) {
  for (const auto& [node, num_shared] : tree_.nearest(tenant, parent, tokens, kMostLookedAt)) {
    if (is_tail(node) && num_shared == tree_[node].tokens.size() && num_shared <= most &&
        places_[node].num_leases == 0)
      drop(node, DiskBook::Discard::kReleased);
  }
}

NodeId PageCache::add_node(TenantId tenant, QuotaId quota, NodeId parent,
                           std::span<const std::int32_t> tokens) {
  const NodeId id = tree_.add(tenant, parent, tokens);
  if (id >= places_.size()) places_.resize(std::size_t{id} + 1);
  places_[id].quota = quota;
  reweigh_changed();
  return id;
}

// Forgets the node, and those above it, by which nothing can be found.
void PageCache::prune(NodeId id) {
  while (id != kNoNode) {
    const Place& place = places_[id];
    if (place.has_page() || tree_[id].num_children > 0 || place.num_leases > 0) return;
    const NodeId parent = tree_[id].parent;
    tree_.remove(id);
    places_[id] = Place{};
    disk_.forget(id);
    reweigh_changed();
    id = parent;
  }
}

// The node has no page on this device yet: the lease's own becomes it.
void PageCache::adopt(WorkerIndex worker, HeldPage& held, TimePoint now) {
  dequeue(held.node, worker);
  Place& place = places_[held.node];
  if (place.on_devices.empty() && place.host_page == kNone && place.disk_page == kNone)
    place.generation = next_generation_++;
  place.add({.worker = worker, .page = held.page, .num_holders = 1});
  place.last_used = now;
  held.is_private = false;
  enqueue(held.node, worker);
}

void PageCache::release(LeaseId id, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  const Lease lease = std::move(found->second);
  leases_.erase(found);
  for (auto held = lease.pages.rbegin(); held != lease.pages.rend(); ++held) let_go(lease.worker, *held, now);
}

void PageCache::let_go(WorkerIndex worker, const HeldPage& held, TimePoint now) {
  if (held.is_private) device(worker).put_free(held.page);
  if (held.node == kNoNode) return;
  dequeue(held.node, worker);
  Place& place = places_[held.node];
  place.num_leases -= 1;
  place.last_used = now;
  if (!held.is_private && --place.on(worker)->num_holders == 0 && place.is_void)
    free_device_page(held.node, worker);
  enqueue(held.node, worker);
  prune(held.node);
}

PageCounts PageCache::counts() const {
  PageCounts all = counts(0);
  for (WorkerIndex worker = 1; worker < devices_.size(); ++worker) {
    const PageCounts one = counts(worker);
    all.total += one.total;
    all.free += one.free;
    all.cached += one.cached;
    all.running += one.running;
  }
  return all;
}

PageCounts PageCache::counts(WorkerIndex worker) const {
  PageCounts counts;
  if (worker < devices_.size() && devices_[worker]) {
    const DeviceBook& device = *devices_[worker];
    counts.total = device.num_pages();
    counts.free = device.num_free();
    counts.cached = device.num_cached();
    counts.running = counts.total - device.num_available();
  }
  counts.host_total = host_.num_pages();
  counts.host_free = host_.num_free();
  counts.disk_total = disk_.num_pages();
  counts.disk_free = disk_.num_free();
  return counts;
}

}  // namespace troupe
