// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_disposal.hpp"

#include <vector>

#include "policy/pages/prefix_search.hpp"

namespace troupe {

// The tokens get a new node should they be computed again while a lease holds the
// void page; this one goes with its holders.
void PageDisposal::void_contents(std::uint64_t generation) {
  for (NodeId id = 0; id < places_.tree().end(); ++id) {
    const PagePlace& place = places_[id];
    if (!places_.tree()[id].is_used || place.is_void || place.generation != generation) continue;
    if (!place.has_page()) return;
    if (place.is_held()) places_.hide(id);
    drop(id, DiskBook::Discard::kReleased);
    return;
  }
}

// From all tiers, but for device pages that leases hold.
void PageDisposal::drop(NodeId id, DiskBook::Discard on_disk) {
  if (places_[id].is_fetching || places_[id].is_writing) places_.abandon_transfer(id);
  if (places_[id].host_page != PagePlace::kNone) places_.drop_host_page(id);
  if (places_[id].disk_page != PagePlace::kNone) places_.drop_disk_page(id, on_disk);
  places_.dequeue(id);
  std::erase_if(places_[id].on_devices, [&](const DevicePage& page) {
    if (page.num_holders > 0) return false;
    places_.tiers().device(page.worker).put_free(page.page, places_[id].quota);
    return true;
  });
  places_.enqueue(id);
  places_.prune(id);
}

// From the end as far as nothing else continues or holds it.
void PageDisposal::forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept) {
  const std::vector<NodeId> chain = places_.tree().match(tenant, tokens);
  for (std::size_t depth = 0; depth <= chain.size(); ++depth) {
    const std::size_t begin = depth * places_.options().page_size;
    if (begin >= num_kept)
      drop_tails(tenant, depth == 0 ? kNoNode : chain[depth - 1], tokens.subspan(begin), tokens.size());
  }
  for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
    const PrefixTree::Node& node = places_.tree()[*id];
    if (!node.is_used) continue;  // it was a hole, and went with its end
    if (node.num_children > 0 || places_[*id].num_leases > 0) return;
    if (std::size_t{node.depth} * places_.options().page_size < num_kept) return;
    places_.statistics().forgotten += 1;
    drop(*id, DiskBook::Discard::kErased);
  }
}

// Least recently used first, ends of conversations only: what is left stays
// findable.
void PageDisposal::expire(TimePoint oldest, std::uint32_t max_pages) {
  for (NodeId id = 0; id < places_.tree().end() && max_pages > 0; ++id) {
    for (NodeId last = id; last != kNoNode && max_pages > 0;) {
      const PrefixTree::Node& node = places_.tree()[last];
      const PagePlace& place = places_[last];
      if (!node.is_used || place.is_void || node.num_children > 0 || place.num_leases > 0 ||
          place.last_used >= oldest)
        break;
      const NodeId parent = node.parent;
      places_.statistics().expired += 1;
      max_pages -= 1;
      drop(last, DiskBook::Discard::kReleased);
      last = parent;
    }
  }
}

void PageDisposal::drop_tails(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens,
                              std::size_t most) {
  for (const auto& [node, num_shared] :
       places_.tree().nearest(tenant, parent, tokens, PrefixSearch::kMostLookedAt)) {
    if (places_.is_tail(node) && num_shared == places_.tree()[node].tokens.size() && num_shared <= most &&
        places_[node].num_leases == 0)
      drop(node, DiskBook::Discard::kReleased);
  }
}

}  // namespace troupe
