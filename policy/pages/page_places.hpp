// SPDX-License-Identifier: Apache-2.0
// The place of every node of the prefix tree, and the books of the tiers, which agree with it. A node
// stands in the queues that its place says: of each device for its page there that no lease holds, of the
// host, of the disk. A change of a place happens between dequeue() and enqueue() of its node, so no queue
// is stale; owners, quotas and children on disk are counted here. A node without a page stays as long as
// others hang on it, so the middle of a conversation is found although its beginning is gone; the
// beginning is then computed again (a hole).
//
// Decisions are made by others: policy/pages/page_leases.hpp, host_traffic.hpp, disk_traffic.hpp,
// page_disposal.hpp. A value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/costs/recompute_cost.hpp"
#include "policy/pages/page_counts.hpp"
#include "policy/pages/page_place.hpp"
#include "policy/pages/prefix_tree.hpp"
#include "policy/pages/restore_choice.hpp"
#include "policy/pages/tier_books.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

struct PageCacheOptions {
  std::uint32_t page_size = 1;  // tokens
  std::uint32_t num_host_pages = 0;
  std::uint32_t num_disk_pages = 0;
  ServingSettings serving;
  RecomputeCost cost;                                 // nanoseconds where loads have a cost; else any unit
  LoadCost load_from_host = {}, load_from_disk = {};  // a dearer load than its page is not made
  std::uint64_t first_generation = 1;
};

class PagePlaces {
 public:
  using TimePoint = EvictionQueue::TimePoint;
  static constexpr WorkerIndex kAll = UINT32_MAX - 1;  // workers

  explicit PagePlaces(PageCacheOptions options);

  const PageCacheOptions& options() const { return options_; }
  const RestoreCosts& restore_costs() const { return restore_costs_; }
  PageCacheStatistics& statistics() { return statistics_; }
  const PageCacheStatistics& statistics() const { return statistics_; }

  // A device without contents; there must be none of this worker.
  void add_device(WorkerIndex worker, std::uint32_t num_pages);
  // Its pages hold nothing, nor do the host pages that it was still storing; no lease is on it.
  void remove_device(WorkerIndex worker);
  TierBooks& tiers() { return tiers_; }
  const TierBooks& tiers() const { return tiers_; }

  // nodes
  const PrefixTree& tree() const { return tree_; }
  PagePlace& operator[](NodeId node) { return places_[node]; }
  const PagePlace& operator[](NodeId node) const { return places_[node]; }
  NodeId add(TenantId tenant, QuotaId quota, NodeId parent, std::span<const std::int32_t> tokens);
  // It has the void page of its holders, is not found any more, and stands in no queue.
  void hide(NodeId node);
  // Forgets the node, and those above it, by which nothing can be found.
  void prune(NodeId node);
  std::uint64_t new_generation() { return next_generation_++; }
  void skip_generation(std::uint64_t known);  // of an earlier process
  // It ends inside its page.
  bool is_tail(NodeId node) const { return tree_[node].tokens.size() < options_.page_size; }
  // Its host page has its contents, not only soon.
  bool is_settled(const PagePlace& place) const {
    return place.is_on_host() && tiers_.host().is_settled(place.host_page);
  }
  bool can_load(const PagePlace& place, WorkerIndex worker) const {
    return place.is_on_host() && tiers_.host().may_load(worker, place.host_page);
  }
  bool is_unwritten(NodeId node) const;  // on the host, and may go to the disk
  bool is_way_open(NodeId node) const;   // on devices alone, and may go to the disk
  // Cost of computing its page again, for all that would miss it.
  double worth(NodeId node) const;

  // queues
  // On one device only where nothing has changed for the others: a page that many
  // have costs none of them anything when it is used on one.
  void enqueue(NodeId node, WorkerIndex worker = kAll);
  void dequeue(NodeId node, WorkerIndex worker = kAll);
  void lift(WorkerIndex worker, std::span<const NodeId> chain);  // lifted nodes are no victims
  void put_back(std::span<const NodeId> chain);

  // Nodes that an earlier process left, and that are its tenant's as is now known.
  void own(std::span<const NodeId> chain, QuotaId quota);

  // pages of a node
  void free_device_page(NodeId node, WorkerIndex worker);  // of one that is in no queue
  void set_host_page(NodeId node, std::uint32_t host_page);
  void drop_host_page(NodeId node);
  void set_disk_page(NodeId node, std::uint32_t disk_page);
  void drop_disk_page(NodeId node, DiskBook::Discard discard);
  // The node does without; the pages are free when the transfer is over.
  void abandon_transfer(NodeId node);

 private:
  friend class Fingerprint;
  static constexpr std::uint32_t kNone = PagePlace::kNone;

  void make_room_for(std::size_t num_pages);
  void reweigh(NodeId node);
  void reweigh_changed();
  double worth_on_host(NodeId node) const;
  std::uint32_t clear_host_page(NodeId node);
  std::uint32_t clear_disk_page(NodeId node);
  void count_disk_child(NodeId parent, int difference);

  PageCacheOptions options_;
  RestoreCosts restore_costs_;
  std::size_t num_pages_ = 0;  // of all tiers
  PrefixTree tree_;
  std::vector<PagePlace> places_;  // by node
  TierBooks tiers_;
  std::uint64_t next_generation_ = 1;
  PageCacheStatistics statistics_;
};

}  // namespace troupe
