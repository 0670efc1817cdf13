// SPDX-License-Identifier: Apache-2.0
// Drops pages from all tiers though their space is not needed: contents that are wrong, conversations that
// are over, pages not used for too long, and *tails* (last pages that are not full) that a longer page
// begins with.
#pragma once

#include <cstdint>
#include <span>

#include "policy/pages/page_places.hpp"

namespace troupe {

class PageDisposal {
 public:
  using TimePoint = PagePlaces::TimePoint;

  explicit PageDisposal(PagePlaces& places) : places_(places) {}

  // A load of these contents failed its check: they are not found again, in any
  // tier. Leases that hold them keep the page, and must be released.
  void void_contents(std::uint64_t generation);
  // The conversation is over: what only it has is dropped from all tiers. Pages
  // that others hold or continue are kept, and those with any of the first
  // num_kept tokens.
  void forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept = 0);
  // Drops what was not used since `oldest`, at most so many pages at once.
  void expire(TimePoint oldest, std::uint32_t max_pages);
  // Tails of at most so many tokens that are the beginnings of these, and that no lease
  // ends with.
  void drop_tails(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens, std::size_t most);

 private:
  void drop(NodeId node, DiskBook::Discard on_disk);

  PagePlaces& places_;
};

}  // namespace troupe
