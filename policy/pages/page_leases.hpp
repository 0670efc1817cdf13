// SPDX-License-Identifier: Apache-2.0
// Device pages for sequences, held through leases. A sequence gets what is known of its prompt as it is,
// loaded, or as a hole to be filled, and pages of its own behind that. A page that is full and computed
// gets a node, so that later sequences with the same beginning find it. The last page of a sequence that
// has ended is known too, though it is not full (a *tail*): the next turn goes on inside it. A tail is a
// leaf, is copied and never shared, goes when a longer page begins like it, and is not written to disk.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/forming/token_range.hpp"
#include "policy/pages/lease_book.hpp"
#include "policy/pages/page_demand.hpp"
#include "policy/pages/page_places.hpp"
#include "policy/pages/prefix_search.hpp"

namespace troupe {

struct PageGrant {
  std::vector<std::uint32_t> pages;
  // The KV of the first known_tokens is in the pages, or will be once the
  // queued copies are done, except in the holes, which are to be computed:
  // whole pages, in order. It may end inside a page, behind a head; that page
  // is the sequence's own.
  std::uint32_t known_tokens = 0;
  std::vector<TokenRange> holes;
  std::uint32_t tokens_from_device = 0;
  std::uint32_t tokens_from_host = 0;
};

class PageLeases {
 public:
  using TimePoint = PagePlaces::TimePoint;

  PageLeases(PagePlaces& places, LeaseBook& book) : places_(places), book_(book) {}

  // Pages of a worker for a sequence that knows `tokens`, those found first; the
  // demand counts both. At least the last token is left to compute. `id` must be
  // new. nullopt: not enough pages, nothing has changed. quota: the tenant's, always the same one;
  // pages of earlier processes are of it from their first use on.
  std::optional<PageGrant> reserve(WorkerIndex worker, LeaseId id, TenantId tenant,
                                   std::span<const std::int32_t> tokens, PageDemand demand, TimePoint now,
                                   QuotaId quota = kNoQuota);
  // More pages for a lease; the demand counts the new ones only.
  std::optional<std::vector<std::uint32_t>> extend(LeaseId id, PageDemand demand, TimePoint now);
  // The KV of the lease's page with this index is computed: these page_size
  // tokens. From now on others may share it. Fewer tokens: the sequence has ended
  // in this page; what is written behind them from now on is not looked at. Pages
  // in front of it must have been found or committed before. Unknown ids are
  // ignored.
  void commit(LeaseId id, std::uint32_t page_index, std::span<const std::int32_t> page_tokens, TimePoint now);
  // Unknown ids are ignored.
  void release(LeaseId id, TimePoint now);

 private:
  std::optional<std::uint32_t> num_new_pages(WorkerIndex worker, std::span<const NodeId> chain,
                                             PageDemand demand) const;
  bool has_room_for_head(WorkerIndex worker, const PrefixSearch::Found& found) const;
  PageGrant take_chain(std::span<const NodeId> chain, PageLease& lease, TimePoint now);
  void take_head(const PrefixSearch::Found& found, PageLease& lease, PageGrant& grant, TimePoint now);
  bool is_covered(const PageLease& lease, NodeId parent, std::span<const std::int32_t> tokens) const;
  void adopt(WorkerIndex worker, HeldPage& held, TimePoint now);
  void let_go(const PageLease& lease, const HeldPage& held, TimePoint now);

  PagePlaces& places_;
  LeaseBook& book_;
};

}  // namespace troupe
