// SPDX-License-Identifier: Apache-2.0
// Where the KV of every known token is: on the devices of workers, on the host,
// on disk, in several of these places, or nowhere any more. Device pages are a
// worker's, host and disk pages the machine's: a page that one worker stored can
// be loaded by another. Sequences hold device pages of one worker through leases. A page that is full and
// computed gets a node in a tree of prefixes (policy/pages/prefix_tree.hpp), so that a later sequence with
// the same beginning finds it, be it the same conversation's next turn or another under the same system
// prompt. Pages without a lease stay until their space is needed and go by value
// (policy/pages/eviction_queue.hpp): from the device to the host, from the host to
// where a copy on disk is, or nowhere. A node without a page stays as long as
// others hang on it, so the middle of a conversation is found although its
// beginning is gone; the beginning is then computed again (a hole).
//
// Pages are shared whole. Where a prompt leaves what is known inside a page, its
// sequence gets a page of its own, into which the one that begins like it (its
// *head*) is copied. The last page of a sequence that has ended is known too,
// though it is not full (a *tail*): the next turn goes on inside it. A tail is a
// leaf, is copied and never shared, goes when a longer page begins like it, and is
// not written to disk.
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
// Always, on each device: free + cached + held == total; on the host and on disk:
// free + used == total. Copies are only *decided* here. Copies between device and
// host are queued in an order in which a device that works in order may do them,
// and every batch of that worker formed after the call may rely on them: to it, a
// page counts as loaded, or stored, when its copy is queued. Another worker's
// device is not ordered with it: until copies_done() says so, no other worker
// loads what is being stored, or stores where something is being copied. Transfers to and from the disk take
// as long as they take: a page counts as read, or written, when transfer_done()
// says so, and its host page is not reused until then. The remains of a copy that
// failed are told apart by generation.
//
// On disk a page is written behind the one in front of it, so that a page file
// alone says what its pages are: they are written from the front of a
// conversation and go from its end. Where a write fails and those behind it do not,
// these are found as long as the process lives, and by the next one if the page in
// front was written again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/costs/recompute_cost.hpp"
#include "policy/forming/token_range.hpp"
#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/device_book.hpp"
#include "policy/pages/disk_book.hpp"
#include "policy/pages/eviction_queue.hpp"
#include "policy/pages/host_book.hpp"
#include "policy/pages/page_demand.hpp"
#include "policy/pages/page_transfer.hpp"
#include "policy/pages/prefix_tree.hpp"
#include "policy/pages/restore_choice.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

using LeaseId = std::uint64_t;

struct PageCacheOptions {
  std::uint32_t page_size = 1;  // tokens
  std::uint32_t num_host_pages = 0;
  std::uint32_t num_disk_pages = 0;
  ServingSettings serving;
  RecomputeCost cost;                                 // nanoseconds where loads have a cost; else any unit
  LoadCost load_from_host = {}, load_from_disk = {};  // a dearer load than its page is not made
  std::uint64_t first_generation = 1;
};

struct PageCounts {
  std::uint32_t total = 0, free = 0, cached = 0, running = 0;  // on devices
  std::uint32_t host_total = 0, host_free = 0;
  std::uint32_t disk_total = 0, disk_free = 0;

  PageCounts& operator+=(const PageCounts& other);
};

// How much of a prompt is where, as one worker would find it: each token is
// counted at the nearest place only.
struct KnownTokens {
  std::uint32_t on_device = 0;
  std::uint32_t on_host = 0;  // that it may load
  std::uint32_t on_disk = 0;
  bool operator==(const KnownTokens&) const = default;
  KnownTokens& operator+=(const KnownTokens& other);
};

// Where a sequence would find what of its prompt.
struct PageAffinity {
  struct OfWorker {
    WorkerIndex worker = 0;
    KnownTokens known;
    bool operator==(const OfWorker&) const = default;
  };
  std::vector<OfWorker> near;  // workers for which it is another than for the others
  KnownTokens elsewhere;       // all others

  const KnownTokens& of(WorkerIndex worker) const;
};

// How often things happened since the beginning.
struct PageCacheStatistics {
  std::uint64_t heads = 0;                // pages of which a part was copied
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
    // whole pages, in order. It may end inside a page, behind a head; that page
    // is the sequence's own.
    std::uint32_t known_tokens = 0;
    std::vector<TokenRange> holes;
    std::uint32_t tokens_from_device = 0;
    std::uint32_t tokens_from_host = 0;
  };

  explicit PageCache(PageCacheOptions options);

  // A device without contents; there must be no worker of this index.
  void add_worker(WorkerIndex worker, std::uint32_t num_device_pages);
  // The device is gone, and all leases on it with it; host pages that it was still
  // storing hold nothing. Nothing of it may touch host pages any more. Pages of host,
  // disk and other workers are kept. Copies that it has done, and that are not
  // reported before this, are as good as not done.
  void remove_worker(WorkerIndex worker);
  // Another device in its place.
  void replace_worker(WorkerIndex worker, std::uint32_t num_device_pages);

  // Pages of a worker for a sequence that knows `tokens`, those found first; the
  // demand counts both. At least the last token is left to compute. `id` must be
  // new. nullopt: not enough pages, nothing has changed. quota: the tenant's, always the same one;
  // pages of earlier processes are of it from their first use on.
  std::optional<Grant> reserve(WorkerIndex worker, LeaseId id, TenantId tenant,
                               std::span<const std::int32_t> tokens, PageDemand demand, TimePoint now,
                               QuotaId quota = kNoQuota);
  // From now on the quota has this part of each device, of the host and of the disk.
  void set_quota(const CacheQuota& quota) { quotas_.set(quota); }
  // Which full pages of `tokens` a reservation would find where, in one walk for
  // all workers.
  PageAffinity affinity(TenantId tenant, std::span<const std::int32_t> tokens) const;

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

  // Queues copies to the host, at most max_copies, while the worker's device is
  // short of pages that can be given away at once.
  void copy_ahead(WorkerIndex worker, std::uint32_t max_copies, TimePoint now);
  // Queues copies to the host of full pages that are on devices alone, those of running
  // sequences too and whether this device is short or not, into space whose contents are
  // nowhere else needed: on their way to the disk, from the front of a conversation.
  void copy_behind(WorkerIndex worker, std::uint32_t max_copies, TimePoint now);
  // Queues transfers to the disk of what is on the host, at most so many, each page
  // behind the one in front of it: a disk that keeps their order never has one alone.
  void write_behind(std::uint32_t max_writes, TimePoint now);

  // Queues transfers from the disk of what these tokens need and neither the
  // worker's device nor the host has, the end first where the host is short of room. Returns the generations
  // to wait for: a reservation made when their transfers are done finds them on
  // the host, unless it comes too late.
  std::vector<std::uint64_t> fetch(WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens,
                                   TimePoint now, QuotaId quota = kNoQuota);

  // The worker's device has done these: the host's pages may be used by others.
  void copies_done(WorkerIndex worker, std::span<const PageCopy> copies);
  // Each write and each read ends with this, once. Unknown ones are ignored.
  void transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now);

  // Takes the pages of a page file, when nothing is on disk yet. Pages that can't be
  // what they say (no parent, unknown page, twice the same) are erased.
  void restore(std::vector<StoredPage> stored, TimePoint now);

  // A load of these contents failed its check: they are not found again, in any
  // tier. Leases that hold them keep the page, and must be released.
  void void_contents(std::uint64_t generation);

  // The conversation is over: what only it has is dropped from all tiers. Pages
  // that others hold or continue are kept, and those with any of the first
  // num_kept tokens.
  void forget(TenantId tenant, std::span<const std::int32_t> tokens, std::size_t num_kept = 0);
  // Drops disk pages of the least value, at most so many, and gives their space
  // back. The disk tier grows no more than it has, until disk_may_grow().
  void give_up_disk_pages(std::uint32_t max_pages, TimePoint now);
  void disk_may_grow() { disk_.grow_again(); }
  // Drops what was not used since `oldest`, at most so many pages at once.
  void expire(TimePoint oldest, std::uint32_t max_pages);

  // Moves queued since the last call: copies to be done in this order by the
  // worker's device, transfers in any but for erasures.
  std::vector<PageCopy> take_copies(WorkerIndex worker);
  std::vector<DiskTransfer> take_transfers();

  PageCounts counts() const;  // all devices
  PageCounts counts(WorkerIndex worker) const;
  const PageCacheStatistics& statistics() const { return statistics_; }
  std::size_t num_leases() const { return leases_.size(); }
  std::size_t num_nodes() const { return tree_.num_findable(); }
  // Every invariant, the slow way: for tests and debug builds.
  bool is_consistent() const;

 private:
  friend class Fingerprint;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr WorkerIndex kNobody = UINT32_MAX;
  static constexpr WorkerIndex kAll = UINT32_MAX - 1;

  struct DevicePage {
    WorkerIndex worker = 0;
    std::uint32_t page = 0;
    std::uint32_t num_holders = 0;  // leases that use it
  };
  struct Place {                         // of a node of the tree
    std::vector<DevicePage> on_devices;  // by worker, at most one each
    std::uint32_t host_page = kNone;
    std::uint32_t disk_page = kNone;
    std::uint32_t num_disk_children = 0;  // children with a disk page
    std::uint32_t num_leases = 0;         // that have it in their chain
    std::uint64_t generation = 0;         // of its contents
    TimePoint last_used;
    QuotaId quota = kNoQuota;
    bool is_void = false;      // its page is not to be found; goes with its holders
    bool is_fetching = false;  // from the disk page to the host page
    bool is_writing = false;   // from the host page to the disk page
    // Lifted for a reservation of this worker: out of its queue, the host's
    // and the disk's meanwhile.
    WorkerIndex lifted_for = kNobody;

    const DevicePage* on(WorkerIndex worker) const;
    DevicePage* on(WorkerIndex worker);
    void add(const DevicePage& page);
    bool is_held() const;
    bool is_on_host() const { return host_page != kNone && !is_fetching; }
    bool is_on_disk() const { return disk_page != kNone && !is_writing; }
    bool has_page() const { return !on_devices.empty() || is_on_host() || is_on_disk(); }
  };
  struct HeldPage {
    std::uint32_t page = 0;
    NodeId node = kNoNode;   // node of the tokens in it, once they are known to be
    bool is_private = true;  // it is not the node's device page
  };
  struct Lease {
    WorkerIndex worker = 0;
    TenantId tenant = 0;
    QuotaId quota = kNoQuota;
    std::vector<HeldPage> pages;
  };

  struct Found {                // of a prompt
    std::vector<NodeId> chain;  // its full pages
    NodeId head = kNoNode;      // that begins like the page behind them
    std::uint32_t num_head_tokens = 0;
  };

  // finding
  std::vector<NodeId> match(TenantId tenant, std::span<const std::int32_t> tokens) const;
  Found find(WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens, bool from_disk) const;
  void find_head(Found& found, WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens,
                 bool from_disk) const;
  bool is_head_worth_loading(NodeId head, std::uint32_t num_tokens, const LoadCost& load) const;
  bool is_tail(NodeId node) const { return tree_[node].tokens.size() < options_.page_size; }
  bool is_settled(const Place& place) const;
  bool can_load(const Place& place, WorkerIndex worker) const;

  // nodes
  bool is_covered(const Lease& lease, NodeId parent, std::span<const std::int32_t> tokens) const;
  void drop_tails(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens, std::size_t most);
  NodeId add_node(TenantId tenant, QuotaId quota, NodeId parent, std::span<const std::int32_t> tokens);
  void own(std::span<const NodeId> chain, QuotaId quota);
  void prune(NodeId node);
  void reweigh_changed();

  // reserving
  std::optional<std::uint32_t> num_new_pages(WorkerIndex worker, std::span<const NodeId> chain,
                                             PageDemand demand) const;
  bool has_room_for_head(WorkerIndex worker, const Found& found) const;
  Grant take_chain(std::span<const NodeId> chain, Lease& lease, TimePoint now);
  void take_head(const Found& found, Lease& lease, Grant& grant, TimePoint now);
  std::vector<bool> worth_loading(WorkerIndex worker, std::span<const NodeId> chain, bool from_disk) const;
  void adopt(WorkerIndex worker, HeldPage& held, TimePoint now);
  void let_go(WorkerIndex worker, const HeldPage& held, TimePoint now);

  // giving away
  std::uint32_t take_device_page(WorkerIndex worker, QuotaId quota, TimePoint now);
  void reclaim(WorkerIndex worker, NodeId node, TimePoint now);
  void free_device_page(NodeId node, WorkerIndex worker);
  std::optional<std::uint32_t> take_host_page(WorkerIndex worker, NodeId node, double value, TimePoint now);
  std::optional<std::uint32_t> take_idle_host_page(QuotaId quota, TimePoint now);
  std::optional<std::uint32_t> take_backed_host_page(WorkerIndex worker, NodeId node, TimePoint now);
  void evict_from_host(NodeId node);
  void drop_host_page(NodeId node);
  void drop(NodeId node, DiskBook::Discard on_disk);
  std::optional<std::uint32_t> take_disk_page(NodeId node, TimePoint now);
  std::optional<NodeId> disk_victim(NodeId node, TimePoint now) const;

  // copies
  void store(WorkerIndex worker, NodeId node, std::uint32_t host_page);
  void load(WorkerIndex worker, HeldPage& held);
  void queue_copy(WorkerIndex worker, const PageCopy& copy);

  // disk
  bool is_unwritten(NodeId node) const;
  std::vector<NodeId> chain_to_write(NodeId node) const;
  std::vector<NodeId> chain_to_copy(WorkerIndex worker, NodeId node) const;
  bool is_way_open(NodeId node) const;
  bool has_disk_room_for(NodeId node, TimePoint now) const;
  double value_on_disk(NodeId node, TimePoint now) const;
  bool write(NodeId node, TimePoint now);
  bool write_with_front(NodeId node, std::uint32_t& max_writes, TimePoint now);
  DiskTransfer begin_read(NodeId node, std::uint32_t host_page);
  void set_host_page(NodeId node, std::uint32_t host_page);
  std::uint32_t clear_host_page(NodeId node);
  void set_disk_page(NodeId node, std::uint32_t disk_page);
  std::uint32_t clear_disk_page(NodeId node);
  void drop_disk_page(NodeId node, DiskBook::Discard discard);
  void count_disk_child(NodeId parent, int difference);
  void abandon_transfer(NodeId node);
  PageIdentity identity_of(NodeId node) const;
  NodeId adopt_stored(const StoredPage& page, const std::unordered_map<std::uint64_t, NodeId>& by_generation);

  // queues
  DeviceBook& device(WorkerIndex worker) { return *devices_.at(worker); }
  void make_room_for(std::size_t num_pages);
  void lift(WorkerIndex worker, std::span<const NodeId> chain);
  void put_back(std::span<const NodeId> chain);
  void enqueue(NodeId node, WorkerIndex worker = kAll);
  void dequeue(NodeId node, WorkerIndex worker = kAll);
  void reweigh(NodeId node);
  double worth(NodeId node) const;
  double worth_on_host(NodeId node) const;

  // the audit
  bool is_place_consistent(NodeId node) const;
  bool is_in_right_queues(NodeId node) const;
  bool have_queues_nothing_else() const;
  bool are_counted_right() const;
  bool have_device_pages_one_owner() const;
  bool have_other_pages_one_owner() const;
  bool are_quotas_counted_right() const;

  PageCacheOptions options_;
  RestoreCosts restore_costs_;
  std::size_t num_pages_ = 0;  // of all tiers
  PrefixTree tree_;
  std::vector<Place> places_;                       // by node
  std::vector<std::optional<DeviceBook>> devices_;  // by worker
  HostBook host_;
  DiskBook disk_;
  CacheQuotas quotas_;
  QuotaCounts used_on_host_, used_on_disk_;
  std::unordered_map<LeaseId, Lease> leases_;
  std::uint64_t next_generation_ = 1;
  PageCacheStatistics statistics_;
};

}  // namespace troupe
