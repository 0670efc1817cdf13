// SPDX-License-Identifier: Apache-2.0
// Which KV page belongs to whom. Sequences hold pages through reservations;
// full pages whose KV has been computed are kept in a prefix index, so that a
// later sequence with the same beginning shares them. Pages nobody refers to
// stay in the index until their space is needed and go least recently used
// first, the deepest of a chain before those it hangs on. Of pages that several
// computed at once one is in the index; when nobody holds it any more while a
// copy is held, the copy takes its place.
//
//   free ──reserve/extend──► running ──release──► free, or cached if indexed
//                               ▲                              │
//                               └───── reserve (a hit) ────────┤
//   free ◄───────────────────── evicted ◄──────────────────────┘
//
// Always: free + cached + running == total.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/page_demand.hpp"
#include "policy/page_key.hpp"

namespace troupe {

using ReservationId = std::uint64_t;

struct PagePoolOptions {
  std::uint32_t num_pages = 0;
  std::uint32_t page_size = 1;  // tokens
  bool prefix_cache = true;
  PageSecret secret;
  unsigned hash_bits = 128;  // fewer only in tests: collisions must do no harm
};

struct PageCounts {
  std::uint32_t total = 0, free = 0, cached = 0, running = 0;
};

class PagePool {
 public:
  struct Grant {
    std::vector<std::uint32_t> pages;
    std::uint32_t cached_tokens = 0;  // their KV is in the first pages already
  };

  explicit PagePool(PagePoolOptions options);

  // Pages for a sequence that knows `tokens`, the shared ones first; the
  // demand counts both. At least the last token is left to compute. `id` must
  // be new. nullopt: not enough pages, nothing has changed.
  std::optional<Grant> reserve(ReservationId id, std::span<const std::int32_t> tokens,
                               PageDemand demand);

  // More pages for a reservation; the demand counts the new ones only.
  std::optional<std::vector<std::uint32_t>> extend(ReservationId id, PageDemand demand);

  // The KV of the reservation's next uncommitted page is computed: these
  // page_size tokens. From now on others may share it.
  void commit(ReservationId id, std::span<const std::int32_t> page_tokens);

  // Unknown ids are ignored.
  void release(ReservationId id);

  PageCounts counts() const;
  // Pages that were cached and had to give way, since the beginning.
  std::uint64_t num_evicted() const { return num_evicted_; }
  std::size_t num_reservations() const { return reservations_.size(); }
  // Every invariant, the slow way: for tests and debug builds.
  bool is_consistent() const;

 private:
  // A page in the index. Serial numbers tell apart what the same page held at
  // different times; a child is only valid below the very parent it was
  // computed with, so a chain of hits is a chain of equal tokens.
  struct Page {
    std::uint32_t num_references = 0;
    std::uint64_t serial = 0;  // 0: not in the index
    std::uint64_t parent_serial = 0;
    PageKey key;
    std::vector<std::int32_t> tokens;
    std::list<std::uint32_t>::iterator unused;  // valid if indexed and unreferenced
    std::vector<std::uint32_t> copies;  // held pages of the same tokens and parent
    bool is_copy = false;               // of the indexed page with this key
  };

  struct Chain {  // where a reservation's next commit hangs in the index
    PageKey key;
    std::uint64_t serial = 0;  // 0: at the beginning
    bool is_broken = false;
  };

  struct Reservation {
    std::vector<std::uint32_t> pages;
    std::uint32_t num_committed = 0;
    Chain chain;
  };

  struct KeyHash {
    std::size_t operator()(const PageKey& key) const { return key.low; }
  };

  std::vector<std::uint32_t> match(std::span<const std::int32_t> tokens, Chain& chain) const;
  std::optional<std::uint32_t> find(const Chain& parent, const PageKey& key,
                                    std::span<const std::int32_t> tokens) const;
  bool is_indexed(const Chain& chain) const;
  PageKey key_of(const PageKey& parent, std::span<const std::int32_t> tokens) const;
  std::uint32_t num_available() const;
  std::uint32_t take_page();
  void refer(std::uint32_t page);
  void unrefer(std::uint32_t page);
  void add_copy(std::uint32_t original, std::uint32_t copy);
  void remove_copy(std::uint32_t copy);
  void hand_over(std::uint32_t page);

  PagePoolOptions options_;
  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_;
  std::list<std::uint32_t> unused_;  // indexed, unreferenced; front: evicted next
  std::unordered_map<PageKey, std::uint32_t, KeyHash> index_;
  std::unordered_map<ReservationId, Reservation> reservations_;
  std::uint64_t last_serial_ = 0;
  std::uint64_t num_evicted_ = 0;
};

}  // namespace troupe
