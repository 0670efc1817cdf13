// SPDX-License-Identifier: Apache-2.0
// Where the KV of every known token is: on the device, on the host, on both, or
// nowhere any more. Sequences hold device pages through leases. A page that is
// full and computed gets a node in a tree of prefixes, so that a later sequence
// with the same beginning finds it, be it the same conversation's next turn or
// another under the same system prompt. Pages nobody holds stay until their
// space is needed and go by value (policy/eviction_queue.hpp): from the device
// to the host, from the host to nowhere. A node without a page stays as long as
// others hang on it, so the middle of a conversation is found although its
// beginning is gone; the beginning is then computed again (a hole).
//
//            reserve, extend                       release
//   free ───────────────────► held by leases ───────────────────► cached
//    ▲                          ▲   │ commit: others may share it    │ copy_ahead:
//    │                          │   ▼                                │ also on the host
//    │                          └── a later sequence finds it ◄──────┤
//    └────────── reclaimed: kept on the host, or dropped ◄───────────┘
//
// Always, on the device: free + cached + held == total; on the host: free + used
// == total. Copies are only *decided* here. They are queued in an order in which
// a device that works in order may do them, and every batch formed after the
// call may rely on them: a page counts as loaded, or stored, when its copy is
// queued. What a copy that failed has left behind is told apart by generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/eviction_queue.hpp"
#include "policy/page_demand.hpp"
#include "policy/page_key.hpp"
#include "policy/recompute_cost.hpp"
#include "policy/token_range.hpp"

namespace troupe {

using LeaseId = std::uint64_t;
// Copies made ahead of need behind one batch: the next one waits for them.
inline constexpr std::uint32_t kMaxCopiesAhead = 4;
// Whose prompts these are: pages are shared within a tenant only.
using TenantId = std::uint64_t;

struct PageCacheOptions {
  std::uint32_t page_size = 1;  // tokens
  std::uint32_t num_device_pages = 0;
  std::uint32_t num_host_pages = 0;
  bool keeps_prefixes = true;  // false: a page is free when its sequence lets go
  EvictionPolicy policy = EvictionPolicy::kValue;
  RecomputeCost cost;
  // Copies leave for the host while fewer device pages than this share could be
  // given away at once.
  double copy_ahead_below = 0.25;
  PageSecret secret = {};
  unsigned hash_bits = 128;  // fewer only in tests: collisions must do no harm
};

struct PageCounts {
  std::uint32_t total = 0, free = 0, cached = 0, running = 0;
  std::uint32_t host_total = 0, host_free = 0;
};

// How often things happened since the beginning.
struct PageCacheStatistics {
  std::uint64_t stored = 0;            // copies to the host
  std::uint64_t loaded = 0;            // copies from the host
  std::uint64_t reclaimed = 0;         // device pages given away, their host page kept
  std::uint64_t dropped_from_device = 0;  // for want of room on the host
  std::uint64_t dropped_from_host = 0;
};

// One page from tier to tier. The generation says what is in it: no other
// contents ever had the same.
struct PageCopy {
  enum class Direction : std::uint8_t { kStore, kLoad };  // to the host, from it
  Direction direction = Direction::kStore;
  std::uint32_t device_page = 0;
  std::uint32_t host_page = 0;
  std::uint64_t generation = 0;
  bool operator==(const PageCopy&) const = default;
};

class PageCache {
 public:
  using TimePoint = EvictionQueue::TimePoint;

  struct Grant {
    std::vector<std::uint32_t> pages;
    // The KV of the first known_tokens is in the pages, or will be once the
    // queued copies are done, except in the holes, which are to be computed:
    // whole pages, in order.
    std::uint32_t known_tokens = 0;
    std::vector<TokenRange> holes;
    std::uint32_t tokens_from_device = 0;
    std::uint32_t tokens_from_host = 0;
  };

  explicit PageCache(PageCacheOptions options);

  // Pages for a sequence that knows `tokens`, those found first; the demand
  // counts both. At least the last token is left to compute. `id` must be new.
  // nullopt: not enough pages, nothing has changed.
  std::optional<Grant> reserve(LeaseId id, TenantId tenant, std::span<const std::int32_t> tokens,
                               PageDemand demand, TimePoint now);

  // More pages for a lease; the demand counts the new ones only.
  std::optional<std::vector<std::uint32_t>> extend(LeaseId id, PageDemand demand, TimePoint now);

  // The KV of the lease's page with this index is computed: these page_size
  // tokens. From now on others may share it. Pages in front of it must have
  // been found or committed before. Unknown ids are ignored.
  void commit(LeaseId id, std::uint32_t page_index, std::span<const std::int32_t> page_tokens);

  // Unknown ids are ignored.
  void release(LeaseId id, TimePoint now);

  // Queues copies to the host, at most max_copies, while the device is short of
  // pages that can be given away at once.
  void copy_ahead(std::uint32_t max_copies, TimePoint now);

  // The device is gone, and all leases with it: a new one has this many pages.
  // What the host has is kept.
  void replace_device(std::uint32_t num_device_pages);

  // A load of these contents failed its check: nobody finds them again, on host
  // or device. Leases that hold them keep the page, and must be released.
  void void_contents(std::uint64_t generation);

  // What was queued since the last call, to be done in this order.
  std::vector<PageCopy> take_copies();

  PageCounts counts() const;
  const PageCacheStatistics& statistics() const { return statistics_; }
  std::size_t num_leases() const { return leases_.size(); }
  std::size_t num_nodes() const { return by_key_.size(); }
  // Every invariant, the slow way: for tests and debug builds.
  bool is_consistent() const;
  bool has_right_leaves() const;

 private:
  using NodeId = std::uint32_t;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Node {  // one page's worth of tokens, below its parent
    bool is_used = false;
    bool is_void = false;  // its page is not to be found; goes with its holders
    TenantId tenant = 0;
    NodeId parent = kNone;  // kNone: the first page
    PageKey key;
    std::vector<std::int32_t> tokens;
    std::uint32_t depth = 0;         // pages in front
    std::uint32_t num_children = 0;
    std::uint32_t num_leaves = 1;    // sequences that end below: who would miss it
    std::uint32_t num_leases = 0;    // that have it in their chain
    std::uint32_t num_holders = 0;   // leases that use its device page
    std::uint32_t device_page = kNone;
    std::uint32_t host_page = kNone;
    std::uint64_t generation = 0;    // of its contents
    TimePoint last_used;
    bool is_lifted = false;  // out of the queues while a reservation is made
  };
  struct HeldPage {
    std::uint32_t page = 0;
    NodeId node = kNone;      // whose tokens are in it, once they are known to be
    bool is_private = true;   // it is not the node's device page
  };
  struct Lease {
    TenantId tenant = 0;
    std::vector<HeldPage> pages;
  };
  struct KeyHash {
    std::size_t operator()(const PageKey& key) const { return key.low; }
  };

  // finding
  std::vector<NodeId> match(TenantId tenant, std::span<const std::int32_t> tokens) const;
  NodeId find(TenantId tenant, NodeId parent, const PageKey& key,
              std::span<const std::int32_t> tokens) const;
  PageKey key_of(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) const;
  bool has_page(NodeId node) const;

  // the tree
  NodeId add_node(TenantId tenant, NodeId parent, const PageKey& key,
                  std::span<const std::int32_t> tokens);
  void prune(NodeId node);
  void change_leaves(NodeId node, int difference);

  // reserving
  std::optional<std::uint32_t> num_new_pages(std::span<const NodeId> chain,
                                             PageDemand demand) const;
  Grant take_chain(std::span<const NodeId> chain, Lease& lease, TimePoint now);

  // pages
  std::uint32_t num_available() const;
  std::uint32_t take_device_page(TimePoint now);
  void reclaim(NodeId node, TimePoint now);
  std::optional<std::uint32_t> take_host_page(double value, TimePoint now);
  void store(NodeId node, std::uint32_t host_page);
  void load(HeldPage& held);
  void adopt(HeldPage& held);
  void let_go(const HeldPage& held, TimePoint now);
  void enqueue(NodeId node);
  void dequeue(NodeId node);
  double worth(const Node& node) const;

  PageCacheOptions options_;
  std::vector<Node> nodes_;
  std::vector<NodeId> free_nodes_;
  std::unordered_multimap<PageKey, NodeId, KeyHash> by_key_;
  std::unordered_map<LeaseId, Lease> leases_;
  std::vector<std::uint32_t> free_device_pages_, free_host_pages_;
  // Nodes whose device page nobody holds, without and with a host page; nodes
  // with a host page.
  EvictionQueue dirty_, clean_, on_host_;
  std::vector<PageCopy> copies_;
  std::uint64_t last_generation_ = 0;
  PageCacheStatistics statistics_;
};

}  // namespace troupe
