// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/prefix_search.hpp"

#include <algorithm>

namespace troupe {

PrefixSearch::Found PrefixSearch::find(WorkerIndex worker, TenantId tenant,
                                       std::span<const std::int32_t> tokens, bool from_disk) const {
  Found found{.chain = match(tenant, tokens)};
  while (true) {
    find_head(found, worker, tenant, tokens, from_disk);
    if (found.head != kNoNode || found.chain.empty()) return found;
    const PagePlace& last = places_[found.chain.back()];
    if (last.on(worker) || places_.can_load(last, worker) || last.is_on_disk()) return found;
    found.chain.pop_back();
  }
}

// Below the chain's last node: the page with the longest beginning in common that
// can be copied. from_disk: or fetched.
void PrefixSearch::find_head(Found& found, WorkerIndex worker, TenantId tenant,
                             std::span<const std::int32_t> tokens, bool from_disk) const {
  const std::size_t begin = found.chain.size() * places_.options().page_size;
  if (!places_.options().serving.keeps_prefixes() || tokens.size() <= begin + 1) return;
  const auto rest =
      tokens.subspan(begin, std::min<std::size_t>(places_.options().page_size, tokens.size() - 1 - begin));
  const NodeId parent = found.chain.empty() ? kNoNode : found.chain.back();
  for (const auto& [node, num_shared] : places_.tree().nearest(tenant, parent, rest, kMostLookedAt)) {
    if (num_shared < found.num_head_tokens) return;
    const PagePlace& place = places_[node];
    const bool is_here = place.on(worker);
    const bool is_loaded = !is_here && places_.can_load(place, worker) &&
                           is_head_worth_loading(node, num_shared, places_.options().load_from_host);
    const bool is_fetched = !is_here && from_disk && place.is_on_disk() && !place.is_on_host() &&
                            is_head_worth_loading(node, num_shared, places_.options().load_from_disk);
    if (!is_here && (found.head != kNoNode || (!is_loaded && !is_fetched))) continue;
    found.head = node;
    found.num_head_tokens = num_shared;
    if (is_here) return;
  }
}

// As a trip of its own.
bool PrefixSearch::is_head_worth_loading(NodeId head, std::uint32_t num_tokens, const LoadCost& load) const {
  const double share = static_cast<double>(num_tokens) / places_.options().page_size;
  const double gain = places_.options().cost.of_page(places_.tree()[head].depth) * share;
  return load == LoadCost{} || gain > load.fixed + load.per_page;
}

// All but the last token may be known.
std::vector<NodeId> PrefixSearch::match(TenantId tenant, std::span<const std::int32_t> tokens) const {
  if (!places_.options().serving.keeps_prefixes() || tokens.empty()) return {};
  return places_.tree().match(tenant, tokens.first(tokens.size() - 1));
}

std::vector<bool> PrefixSearch::worth_loading(WorkerIndex worker, std::span<const NodeId> chain,
                                              bool from_disk) const {
  std::vector<KvPlace> places;
  places.reserve(chain.size());
  for (const NodeId id : chain) {
    const PagePlace& place = places_[id];
    if (place.on(worker)) {
      places.push_back(KvPlace::kDevice);
    } else if (places_.can_load(place, worker)) {
      places.push_back(KvPlace::kHost);
    } else {
      places.push_back(from_disk && place.is_on_disk() ? KvPlace::kDisk : KvPlace::kNowhere);
    }
  }
  return pages_to_load(places, places_.restore_costs());
}

// For each worker that is met, what it does not find as the others do.
PageAffinity PrefixSearch::affinity(TenantId tenant, std::span<const std::int32_t> tokens) const {
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
    const PagePlace& place = places_[id];
    KnownTokens others;
    if (places_.is_settled(place)) {
      others.on_host = places_.options().page_size;
    } else if (place.is_on_disk()) {
      others.on_disk = places_.options().page_size;
    }
    affinity.elsewhere += others;
    for (const DevicePage& page : place.on_devices) {
      const std::size_t i = near(page.worker);
      affinity.near[i].known.on_device += places_.options().page_size;
      less[i] += others;
    }
    if (!place.is_on_host() || places_.is_settled(place)) continue;
    const WorkerIndex storing = places_.tiers().host().storing_worker(place.host_page);
    if (place.on(storing)) continue;
    const std::size_t i = near(storing);
    affinity.near[i].known.on_host += places_.options().page_size;
    less[i] += others;
  }
  for (std::size_t i = 0; i < less.size(); ++i) {
    KnownTokens& known = affinity.near[i].known;
    known.on_host += affinity.elsewhere.on_host - less[i].on_host;
    known.on_disk += affinity.elsewhere.on_disk - less[i].on_disk;
  }
  return affinity;
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

}  // namespace troupe
