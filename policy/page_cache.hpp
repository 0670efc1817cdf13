// SPDX-License-Identifier: Apache-2.0
// Where the KV of every known token is: on the device, on the host, on disk, in
// several of these places, or nowhere any more. Sequences hold device pages
// through leases. A page that is full and computed gets a node in a tree of
// prefixes, so that a later sequence with the same beginning finds it, be it the
// same conversation's next turn or another under the same system prompt. Pages
// nobody holds stay until their space is needed and go by value
// (policy/eviction_queue.hpp): from the device to the host, from the host to
// where a copy on disk is, or nowhere. A node without a page stays as long as
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
//                fetch                      write_behind
//   on disk ───────────────► on the host ───────────────► on both
//
// Always, on the device: free + cached + held == total; on the host and on disk:
// free + used == total. Copies are only *decided* here. Those between device and
// host are queued in an order in which a device that works in order may do them,
// and every batch formed after the call may rely on them: a page counts as
// loaded, or stored, when its copy is queued. Transfers to and from the disk take
// as long as they take: a page counts as read, or written, when transfer_done()
// says so, and its host page is nobody else's until then. What a copy that failed
// has left behind is told apart by generation.
//
// On disk a page is never without the one in front of it, so that a page file
// alone says what its pages are: they are written from the front of a
// conversation and go from its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/eviction_queue.hpp"
#include "policy/page_demand.hpp"
#include "policy/page_key.hpp"
#include "policy/page_transfer.hpp"
#include "policy/recompute_cost.hpp"
#include "policy/restore_choice.hpp"
#include "policy/token_range.hpp"

namespace troupe {

using LeaseId = std::uint64_t;
// Copies made ahead of need behind one batch: the next one waits for them.
inline constexpr std::uint32_t kMaxCopiesAhead = 4;

struct PageCacheOptions {
  std::uint32_t page_size = 1;  // tokens
  std::uint32_t num_device_pages = 0;
  std::uint32_t num_host_pages = 0;
  std::uint32_t num_disk_pages = 0;
  bool keeps_prefixes = true;  // false: a page is free when its sequence lets go
  EvictionPolicy policy = EvictionPolicy::kValue;
  RecomputeCost cost;                                 // nanoseconds where loads have a cost; else any unit
  LoadCost load_from_host = {}, load_from_disk = {};  // a dearer load than its page is not made
  // Copies leave for the host while fewer device pages than this share could be
  // given away at once.
  double copy_ahead_below = 0.25;
  PageSecret secret = {};
  std::uint64_t first_generation = 1;
  unsigned hash_bits = 128;  // fewer only in tests: collisions must do no harm
};

struct PageCounts {
  std::uint32_t total = 0, free = 0, cached = 0, running = 0;
  std::uint32_t host_total = 0, host_free = 0;
  std::uint32_t disk_total = 0, disk_free = 0;
};

// How often things happened since the beginning.
struct PageCacheStatistics {
  std::uint64_t stored = 0;               // copies to the host
  std::uint64_t loaded = 0;               // copies from the host
  std::uint64_t reclaimed = 0;            // device pages given away, their host page kept
  std::uint64_t dropped_from_device = 0;  // for want of room on the host
  std::uint64_t dropped_from_host = 0;
  std::uint64_t kept_on_disk = 0;  // host pages given away, their disk page kept
  std::uint64_t written = 0;       // transfers to the disk that were done
  std::uint64_t read = 0;          // transfers from the disk that were done
  std::uint64_t dropped_from_disk = 0;
  std::uint64_t damaged_on_disk = 0;  // not there, or not intact, when read
  std::uint64_t forgotten = 0;        // pages of conversations that were closed
  std::uint64_t expired = 0;          // pages not used for too long
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
  // Queues copies to the host of pages that are on the device alone, whether it
  // is short or not, into space whose contents are nowhere else needed: on their
  // way to the disk.
  void copy_behind(std::uint32_t max_copies, TimePoint now);
  // Queues transfers to the disk of what is on the host, at most so many.
  void write_behind(std::uint32_t max_writes, TimePoint now);

  // Queues transfers from the disk of what these tokens need and no other tier
  // has, the end first where the host is short of room. Returns the generations
  // to wait for: a reservation made when their transfers are done finds them on
  // the host, unless it comes too late.
  std::vector<std::uint64_t> fetch(TenantId tenant, std::span<const std::int32_t> tokens, TimePoint now);

  // The device has done these: the host's pages may be read by others.
  void copies_done(std::span<const PageCopy> copies);
  // Each write and each read ends with this, once. Unknown ones are ignored.
  void transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now);

  // What a page file holds, when nothing is on disk yet. Pages that can't be
  // what they say (no parent, unknown page, twice the same) are erased.
  void restore(std::vector<StoredPage> stored, TimePoint now);

  // The device is gone, and all leases with it: a new one has this many pages.
  // What host and disk have is kept.
  void replace_device(std::uint32_t num_device_pages);

  // A load of these contents failed its check: nobody finds them again, in any
  // tier. Leases that hold them keep the page, and must be released.
  void void_contents(std::uint64_t generation);

  // The conversation is over: what only it has is dropped from all tiers. Pages
  // that others hold or continue are kept, and those with any of the first
  // num_kept tokens.
  void forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept = 0);
  // Drops what nobody has used since `oldest`, at most so many pages at once.
  void expire(TimePoint oldest, std::uint32_t max_pages);

  // What was queued since the last call: copies to be done in this order,
  // transfers in any but for erasures.
  std::vector<PageCopy> take_copies();
  std::vector<DiskTransfer> take_transfers();

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
    std::uint32_t depth = 0;  // pages in front
    std::uint32_t num_children = 0;
    std::uint32_t num_leaves = 1;   // sequences that end below: who would miss it
    std::uint32_t num_leases = 0;   // that have it in their chain
    std::uint32_t num_holders = 0;  // leases that use its device page
    std::uint32_t device_page = kNone;
    std::uint32_t host_page = kNone;
    std::uint32_t disk_page = kNone;
    std::uint32_t num_disk_children = 0;  // children with a disk page
    std::uint64_t generation = 0;         // of its contents
    TimePoint last_used;
    bool is_settled = false;   // the host page has its contents, not only soon
    bool is_fetching = false;  // from the disk page to the host page
    bool is_writing = false;   // from the host page to the disk page
    bool is_listed = false;    // in unwritten_
    bool is_lifted = false;    // out of the queues while a reservation is made
  };
  struct HeldPage {
    std::uint32_t page = 0;
    NodeId node = kNone;     // whose tokens are in it, once they are known to be
    bool is_private = true;  // it is not the node's device page
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
  NodeId find(TenantId tenant, NodeId parent, const PageKey& key, std::span<const std::int32_t> tokens) const;
  PageKey key_of(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) const;
  bool has_page(NodeId node) const;
  bool is_on_host(const Node& node) const { return node.host_page != kNone && !node.is_fetching; }
  bool is_on_disk(const Node& node) const { return node.disk_page != kNone && !node.is_writing; }

  // the tree
  NodeId add_node(TenantId tenant, NodeId parent, const PageKey& key, std::span<const std::int32_t> tokens);
  void prune(NodeId node);
  void unfind(NodeId node);
  void change_leaves(NodeId node, int difference);

  // reserving
  std::optional<std::uint32_t> num_new_pages(std::span<const NodeId> chain, PageDemand demand) const;
  Grant take_chain(std::span<const NodeId> chain, Lease& lease, TimePoint now);
  std::vector<bool> worth_loading(std::span<const NodeId> chain, bool from_disk) const;

  // pages
  static std::vector<std::uint32_t> all_free(std::uint32_t num_pages);
  std::uint32_t num_available() const;
  std::uint32_t take_device_page(TimePoint now);
  void reclaim(NodeId node, TimePoint now);
  void lift(std::span<const NodeId> chain);
  void put_back(std::span<const NodeId> chain);
  std::optional<std::uint32_t> take_host_page(double value, TimePoint now);
  std::optional<std::uint32_t> take_idle_host_page(TimePoint now);
  void evict_from_host(NodeId node);
  void drop_host_page(NodeId node);
  void drop(NodeId node);
  void store(NodeId node, std::uint32_t host_page);
  void load(HeldPage& held);
  void adopt(HeldPage& held);
  void let_go(const HeldPage& held, TimePoint now);
  void enqueue(NodeId node);
  void dequeue(NodeId node);
  void reweigh(NodeId node);
  double worth(const Node& node) const;
  double worth_on_host(const Node& node) const;

  // disk
  bool is_unwritten(const Node& node) const;
  NodeId first_not_on_disk(NodeId node) const;
  bool could_be_written(NodeId node, TimePoint now) const;
  double value_on_disk(const Node& node, TimePoint now) const;
  bool write(NodeId node, TimePoint now);
  std::optional<std::uint32_t> take_disk_page(double value, TimePoint now);
  void set_disk_page(NodeId node, std::uint32_t disk_page);
  void drop_disk_page(NodeId node, bool is_erased);
  void abandon_transfer(NodeId node);
  PageIdentity identity_of(const Node& node) const;
  NodeId adopt_stored(const StoredPage& page, const std::unordered_map<std::uint64_t, NodeId>& by_generation);

  // the audit
  bool is_node_consistent(NodeId node) const;
  bool is_in_right_queues(NodeId node) const;
  bool is_under_way(NodeId node) const;
  bool have_queues_nothing_else() const;
  bool are_counted_right() const;
  bool have_pages_one_owner() const;

  PageCacheOptions options_;
  RestoreCosts restore_costs_;
  std::vector<Node> nodes_;
  std::vector<NodeId> free_nodes_;
  std::unordered_multimap<PageKey, NodeId, KeyHash> by_key_;
  std::unordered_map<LeaseId, Lease> leases_;
  std::vector<std::uint32_t> free_device_pages_, free_host_pages_, free_disk_pages_;
  // Nodes whose device page nobody holds, without and with a host page; nodes
  // with a host page; the last ones on disk of their conversations.
  EvictionQueue dirty_, clean_, on_host_, on_disk_;
  // Of the dirty ones, those that are not on disk; of those on the host, those
  // that are on disk too.
  EvictionQueue loose_, backed_;
  std::vector<PageCopy> copies_;
  std::vector<DiskTransfer> transfers_;
  // By host page: whose it is; copies queued and not yet done that touch it.
  std::vector<NodeId> host_owners_;
  std::vector<std::uint32_t> num_copies_under_way_;
  std::deque<NodeId> unwritten_;  // may be gone, or written, by now
  // By disk page: the node of the transfer under way, kNone if it was given up.
  std::unordered_map<std::uint32_t, NodeId> under_way_;
  std::uint64_t next_generation_ = 1;
  PageCacheStatistics statistics_;
};

}  // namespace troupe
