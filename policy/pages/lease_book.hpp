// SPDX-License-Identifier: Apache-2.0
// Leases on device pages: which pages of one worker a sequence holds, and which nodes their contents have.
// Found through a flat table: a running sequence asks for its lease every few tokens, and a lookup that
// walks a chain of nodes waits for memory at each. A value.
#pragma once

#include <cstdint>
#include <optional>
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
  bool contains(LeaseId id) const { return num_leases_ > 0 && entries_[place_of(id)].is_used(); }
  PageLease* find(LeaseId id);            // null: it is unknown
  void add(LeaseId id, PageLease lease);  // of a new id
  std::optional<PageLease> take(LeaseId id);
  std::vector<PageLease> take_all_of(WorkerIndex worker);
  std::size_t size() const { return num_leases_; }
  std::vector<std::pair<LeaseId, const PageLease*>> all() const;  // in no order

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  // An entry of the table is where its id leads to, or at the next free place behind that.
  struct Entry {
    LeaseId id = 0;
    std::uint32_t lease = kNone;  // index

    bool is_used() const { return lease != kNone; }
  };

  std::size_t home_of(LeaseId id) const { return id * 0x9E3779B97F4A7C15U >> shift_; }
  std::size_t place_of(LeaseId id) const;  // its entry, or the free one that it would get
  void grow();
  void remove(std::size_t place);

  std::vector<Entry> entries_;  // a power of two, at most half of them used
  unsigned shift_ = 64;         // 64 minus the logarithm of their number
  std::vector<PageLease> leases_;
  std::vector<std::uint32_t> free_;  // places among these
  std::size_t num_leases_ = 0;
};

}  // namespace troupe
