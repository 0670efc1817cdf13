// SPDX-License-Identifier: Apache-2.0
// How much of a prompt is known, and what of that a worker may have: the chain of its full pages, and
// the *head*, the page that begins like the rest of it. A page is shared whole; where a prompt leaves
// what is known inside a page, the head is copied into one of the sequence's own. Looks, and changes nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/pages/page_places.hpp"

namespace troupe {

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

class PrefixSearch {
 public:
  struct Found {                // of a prompt
    std::vector<NodeId> chain;  // its full pages
    NodeId head = kNoNode;      // that begins like the page behind them
    std::uint32_t num_head_tokens = 0;
  };
  // Pages with the longest beginnings in common that are looked at.
  static constexpr std::size_t kMostLookedAt = 32;

  explicit PrefixSearch(const PagePlaces& places) : places_(places) {}

  // As far as this worker may have something of it; the rest is computed. from_disk: or fetch it.
  Found find(WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens, bool from_disk) const;
  // By page. from_disk: those on disk count as well as those on the host; else
  // what is on disk only is out of reach.
  std::vector<bool> worth_loading(WorkerIndex worker, std::span<const NodeId> chain, bool from_disk) const;
  // Which full pages of `tokens` a reservation would find where, in one walk for
  // all workers.
  PageAffinity affinity(TenantId tenant, std::span<const std::int32_t> tokens) const;

 private:
  std::vector<NodeId> match(TenantId tenant, std::span<const std::int32_t> tokens) const;
  void find_head(Found& found, WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens,
                 bool from_disk) const;
  bool is_head_worth_loading(NodeId head, std::uint32_t num_tokens, const LoadCost& load) const;

  const PagePlaces& places_;
};

}  // namespace troupe
