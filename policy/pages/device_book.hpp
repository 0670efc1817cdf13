// SPDX-License-Identifier: Apache-2.0
// The KV pages of one worker's device: which are free, in which order those
// that no lease holds are given away, and which are to go to the disk. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/pages/cache_quotas.hpp"
#include "policy/pages/eviction_queue.hpp"
#include "policy/pages/page_copy.hpp"
#include "policy/pages/prefix_tree.hpp"

namespace troupe {

class DeviceBook {
 public:
  using TimePoint = EvictionQueue::TimePoint;

  DeviceBook(const ServingSettings& settings, std::uint32_t num_pages);

  std::uint32_t num_pages() const { return num_pages_; }
  std::uint32_t num_free() const { return static_cast<std::uint32_t>(free_.size()); }
  // Nodes whose page is held by no lease.
  std::uint32_t num_cached() const;
  // Free, or given away without a copy.
  std::uint32_t num_spare() const;
  std::uint32_t num_available() const { return num_free() + num_cached(); }

  std::uint32_t take_free(QuotaId quota);  // for it; there must be one
  void put_free(std::uint32_t page, QuotaId quota);
  void change_quota(QuotaId from, QuotaId to);       // of a page that is not free
  const QuotaCounts& used() const { return used_; }  // pages that are not free

  // A page of a node that no lease holds. Clean: the node is on the host too;
  // dirty: it is not.
  void enqueue(std::uint32_t page, EvictionEntry node, bool is_on_host);
  // Loose: a page of a node that is on devices alone and still to go to the disk,
  // whether a lease holds it or not.
  void enqueue_loose(std::uint32_t page, EvictionEntry node);
  void dequeue(std::uint32_t page);
  void change_worth(std::uint32_t page, double worth);
  bool has_dirty(std::uint32_t page) const { return dirty_.contains(page); }
  bool has_clean(std::uint32_t page) const { return clean_.contains(page); }
  bool has_loose(std::uint32_t page) const { return loose_.contains(page); }

  // First of all pages, of those not on the host, and of the loose ones: the page that
  // goes first.
  std::optional<std::uint32_t> next_victim(TimePoint now, const QuotasOver& over) const;
  std::optional<std::uint32_t> next_dirty(TimePoint now) const { return dirty_.lowest(now); }
  std::optional<std::uint32_t> next_loose(TimePoint now) const { return loose_.lowest(now); }
  NodeId node_of(std::uint32_t page) const { return nodes_[page]; }  // of one in a queue
  void pass_over(std::uint32_t loose) { loose_.erase(loose); }       // until it is enqueued again
  double value_of_dirty(std::uint32_t page, TimePoint now) const { return dirty_.value(page, now); }

  // Copies, queued in the order in which the device is to make them.
  void queue(const PageCopy& copy) { copies_.push_back(copy); }
  std::vector<PageCopy> take_copies();

  std::size_t num_queued() const { return dirty_.size() + clean_.size() + loose_.size(); }
  const std::vector<std::uint32_t>& free_pages() const { return free_; }

 private:
  friend class Fingerprint;
  std::uint32_t num_pages_;
  std::vector<std::uint32_t> free_;
  std::vector<NodeId> nodes_;  // by page, while it is in a queue
  QuotaCounts used_;
  EvictionQueue dirty_, clean_, loose_;  // by page: a queue is as large as its device
  std::vector<PageCopy> copies_;         // not yet taken
};

// The pages 0 … num_pages - 1, the first of them last.
std::vector<std::uint32_t> all_free(std::uint32_t num_pages);

}  // namespace troupe
