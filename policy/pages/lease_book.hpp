// SPDX-License-Identifier: Apache-2.0
// Leases on device pages: which pages of one worker a sequence holds, and which nodes their contents have.
// A value.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/page_copy.hpp"
#include "policy/pages/page_transfer.hpp"
#include "policy/pages/prefix_tree.hpp"

namespace troupe {

using LeaseId = std::uint64_t;

struct HeldPage {
  std::uint32_t page = 0;
  NodeId node = kNoNode;   // node of the tokens in it, once they are known to be
  bool is_private = true;  // it is not the node's device page
};

struct PageLease {
  WorkerIndex worker = 0;
  TenantId tenant = 0;
  QuotaId quota = kNoQuota;
  std::vector<HeldPage> pages;
};

class LeaseBook {
 public:
  bool contains(LeaseId id) const { return leases_.contains(id); }
  PageLease* find(LeaseId id);  // null: it is unknown
  void add(LeaseId id, PageLease lease) { leases_.emplace(id, std::move(lease)); }
  std::optional<PageLease> take(LeaseId id);
  std::vector<PageLease> take_all_of(WorkerIndex worker);
  std::size_t size() const { return leases_.size(); }
  const std::unordered_map<LeaseId, PageLease>& all() const { return leases_; }

 private:
  std::unordered_map<LeaseId, PageLease> leases_;
};

}  // namespace troupe
