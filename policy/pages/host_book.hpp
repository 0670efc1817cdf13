// SPDX-License-Identifier: Apache-2.0
// The host's KV pages, which all workers share: what they hold, which copies are
// under way to and from them, and in which order they are given away. A value.
//
// A device makes its copies in order, and devices are in no order with each other.
// So what one stores only that one may load until the store is done, and a page
// that copies of one touch another does not store into: copies of several devices
// meet in loads only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "policy/pages/eviction_queue.hpp"
#include "policy/pages/page_copy.hpp"
#include "policy/pages/prefix_tree.hpp"

namespace troupe {

class HostBook {
 public:
  using TimePoint = EvictionQueue::TimePoint;

  HostBook(const ServingSettings& settings, std::uint32_t num_pages);

  std::uint32_t num_pages() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t num_free() const { return static_cast<std::uint32_t>(free_.size()); }

  // The last freed one of which may_use(page) is true.
  template <typename MayUse>
  std::optional<std::uint32_t> take_free(MayUse may_use);
  // Free pages may be touched by copies under way.
  void put_free(std::uint32_t page) { free_.push_back(page); }
  NodeId owner(std::uint32_t page) const { return pages_.at(page).owner; }  // kNoNode: none
  void set_owner(std::uint32_t page, NodeId node) { pages_[page].owner = node; }

  bool is_idle(std::uint32_t page) const { return pages_[page].users.empty(); }
  bool may_store(WorkerIndex worker, std::uint32_t page) const;
  bool may_load(WorkerIndex worker, std::uint32_t page) const;
  // It has its contents, not only soon.
  bool is_settled(std::uint32_t page) const { return pages_[page].num_stores == 0; }
  // The worker that stores a page that is not settled.
  WorkerIndex storing_worker(std::uint32_t page) const { return pages_[page].users[0].worker; }

  void begin(WorkerIndex worker, const PageCopy& copy);
  // True: the page has its contents now. Copies of a device that is gone are
  // unknown.
  bool end(WorkerIndex worker, const PageCopy& copy);
  // The device is gone. Returns the nodes whose pages it was still storing: these
  // hold anything.
  std::vector<NodeId> drop_copies_of(WorkerIndex worker);

  // A node whose page may be given away. Backed: it is on disk too.
  void enqueue(const EvictionEntry& entry, bool is_backed);
  void dequeue(NodeId node);
  void change_worth(NodeId node, double worth);
  bool has(NodeId node) const { return all_.contains(node); }
  bool has_backed(NodeId node) const { return backed_.contains(node); }
  double value(NodeId node, TimePoint now) const { return all_.value(node, now); }
  // First of all pages that may go, and of the backed ones.
  template <typename MayGo>
  std::optional<NodeId> next_victim(TimePoint now, const QuotasOver& over, MayGo may_go) const {
    return all_.lowest(now, over, may_go);
  }
  template <typename MayGo>
  std::optional<NodeId> next_backed(TimePoint now, const QuotasOver& over, MayGo may_go) const {
    return backed_.lowest(now, over, may_go);
  }
  std::size_t num_queued() const { return all_.size() + backed_.size(); }

  // For the audit.
  const std::vector<std::uint32_t>& free_pages() const { return free_; }
  bool have_copies_an_order() const;

 private:
  friend class Fingerprint;
  struct User {
    WorkerIndex worker = 0;
    std::uint32_t num_copies = 0;  // queued and not yet done, stores among them
  };
  struct Page {
    NodeId owner = kNoNode;
    std::uint32_t num_stores = 0;  // queued and not yet done
    std::vector<User> users;
  };

  std::vector<User>::iterator find_user(Page& page, WorkerIndex worker);

  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_;
  EvictionQueue all_, backed_;
};

template <typename MayUse>
std::optional<std::uint32_t> HostBook::take_free(MayUse may_use) {
  const auto found = std::find_if(free_.rbegin(), free_.rend(), may_use);
  if (found == free_.rend()) return std::nullopt;
  const std::uint32_t page = *found;
  free_.erase(std::next(found).base());
  return page;
}

}  // namespace troupe
