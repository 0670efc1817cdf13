// SPDX-License-Identifier: Apache-2.0
// A page pool with a naive model beside it that is asked the same and compared
// after every call: what each page holds, who holds each page and, where keys
// are whole, the prefix index as a list of nodes searched from end to end and
// the order of eviction as a plain list.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "policy/page_pool.hpp"

namespace troupe {

class AuditedPool {
 public:
  explicit AuditedPool(PagePoolOptions options);

  // `tokens` are all the sequence will ever have; it knows the first num_known.
  bool reserve(ReservationId id, std::vector<std::int32_t> tokens, std::size_t num_known,
               PageDemand demand);
  bool extend(ReservationId id, PageDemand demand);
  // The next page of its tokens. False: it has no further full page.
  bool commit(ReservationId id);
  void release(ReservationId id);

  const PagePool& pool() const { return pool_; }
  // The first thing that was not as it should be; empty if all was.
  const std::string& violation() const { return violation_; }
  std::uint64_t num_hits() const { return num_hits_; }
  std::uint64_t num_evictions() const { return num_evictions_; }

 private:
  using NodeName = std::uint64_t;

  struct Node {  // a page in the index; names are never used twice
    NodeName parent = 0;
    std::vector<std::int32_t> tokens;
    std::vector<std::uint32_t> pages;  // the indexed one, then copies of it
  };
  struct Reservation {
    std::vector<std::int32_t> tokens;
    std::vector<std::uint32_t> pages;
    std::size_t num_committed = 0;
    std::vector<NodeName> chain;  // the nodes of its committed pages, own or not
  };

  bool has_index() const { return options_.prefix_cache && options_.hash_bits >= 128; }
  std::vector<NodeName> longest_chain(std::span<const std::int32_t> tokens) const;
  NodeName find(NodeName parent, std::span<const std::int32_t> tokens) const;
  NodeName node_at(std::uint32_t page) const;

  void expect(bool is_true, const char* fact);
  void expect_room(bool is_granted, std::size_t num_available, std::size_t num_required,
                   PageDemand demand);
  void expect_number(std::size_t num_new, std::size_t num_available, std::size_t num_shared,
                     PageDemand demand);
  void share(std::uint32_t page, std::span<const std::int32_t> prefix);
  void take(std::uint32_t page);
  void evict(std::uint32_t page);
  void let_go(std::uint32_t page);
  void index(Reservation& reservation, std::span<const std::int32_t> page_tokens);
  void check_counts();

  std::size_t num_unheld() const;

  PagePoolOptions options_;
  PagePool pool_;
  std::map<ReservationId, Reservation> reservations_;
  std::vector<std::uint32_t> num_holders_;           // by page
  std::vector<std::vector<std::int32_t>> contents_;  // by page: all tokens up to its last
  std::map<NodeName, Node> nodes_;
  std::set<std::uint32_t> free_;
  std::vector<std::uint32_t> cached_;  // the next to be evicted first
  NodeName last_name_ = 0;
  std::uint64_t num_hits_ = 0;
  std::uint64_t num_evictions_ = 0;
  std::string violation_;
};

}  // namespace troupe
