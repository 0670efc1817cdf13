// SPDX-License-Identifier: Apache-2.0
// The disk's KV pages: which are free, which transfers are under way, what is still
// to be written, and in which order pages are given away. A value.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/pages/eviction_queue.hpp"
#include "policy/pages/page_transfer.hpp"
#include "policy/pages/prefix_tree.hpp"

namespace troupe {

class DiskBook {
 public:
  // The bytes of a disk page that is dropped. kLeft: its place is written at once.
  enum class Discard : std::uint8_t { kLeft, kErased, kReleased };
  using TimePoint = EvictionQueue::TimePoint;

  DiskBook(const ServingSettings& settings, std::uint32_t num_pages);

  std::uint32_t num_pages() const { return num_pages_; }
  std::uint32_t num_free() const { return static_cast<std::uint32_t>(free_.size()); }
  // True if a page may be taken: one is free, and the disk has space for it.
  bool has_room() const { return num_free() > 0 && num_pages_ - num_free() < limit_; }
  std::optional<std::uint32_t> take_free();
  void put_free(std::uint32_t page) { free_.push_back(page); }
  // A page file has these already; they are not free.
  void occupy(const std::vector<bool>& is_used);

  // A transfer for a node is under way, until end(). A read or a write is queued by
  // the caller that begins it; its page has one at a time.
  void begin(std::uint32_t page, NodeId node) { under_way_.emplace(page, node); }
  bool is_under_way(std::uint32_t page, NodeId node) const;
  // The node does without: its pages are free when the transfer is over.
  void give_up(std::uint32_t page) { under_way_.at(page) = kNoNode; }
  // kNoNode: it was given up. nullopt: it is unknown.
  std::optional<NodeId> end(std::uint32_t page);

  void queue(DiskTransfer transfer) { transfers_.push_back(std::move(transfer)); }
  // The file forgets the page, and not only when its space is used again.
  void queue_discard(std::uint32_t page, Discard discard);
  // The disk grows no more than it has. The `without_space` pages freed last have
  // no space in the file: the free ones in front of them have, and are taken first.
  void stop_growth(std::uint32_t without_space);
  void grow_again() { limit_ = num_pages_; }
  std::vector<DiskTransfer> take_transfers();

  // Nodes to be written, first come first; each is listed once.
  void list_unwritten(NodeId node);
  std::size_t num_unwritten() const { return unwritten_.size(); }
  NodeId next_unwritten();   // may be gone, or written, by now
  void forget(NodeId node);  // its number is to be used again

  // A node whose page may be given away.
  void enqueue(const EvictionEntry& entry) { last_ones_.insert(entry); }
  void dequeue(NodeId node);
  void change_worth(NodeId node, double worth);
  bool has(NodeId node) const { return last_ones_.contains(node); }
  std::optional<NodeId> next_victim(TimePoint now, const QuotasOver& over) const {
    return last_ones_.lowest(now, over);
  }
  double value(NodeId node, TimePoint now) const { return last_ones_.value(node, now); }
  double value_of(double worth, TimePoint last_used, TimePoint now) const {
    return last_ones_.value_of(worth, last_used, now);
  }
  std::size_t num_queued() const { return last_ones_.size(); }

  // For the audit.
  const std::vector<std::uint32_t>& free_pages() const { return free_; }
  std::vector<std::uint32_t> given_up() const;

 private:
  friend class Fingerprint;
  std::uint32_t num_pages_;
  std::uint32_t limit_;  // pages in use at most, by what the disk has room for
  std::vector<std::uint32_t> free_;
  EvictionQueue last_ones_;
  std::vector<DiskTransfer> transfers_;
  // By disk page: the node of the transfer under way, kNoNode if it was given up.
  std::unordered_map<std::uint32_t, NodeId> under_way_;
  std::deque<NodeId> unwritten_;
  std::vector<bool> is_listed_;  // by node
};

}  // namespace troupe
