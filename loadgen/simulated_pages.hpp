// SPDX-License-Identifier: Apache-2.0
// The KV pages of a simulated worker: the page cache of the server where
// prefixes are kept, else only how many are taken, which comes to the same and
// is far cheaper. Copies between the tiers cost nothing here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/cost_profile.hpp"
#include "policy/page_cache.hpp"

namespace troupe::loadgen {

class SimulatedPages {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the run

  struct Grant {
    std::uint32_t num_pages = 0;
    std::uint32_t known_tokens = 0;
    std::vector<troupe::TokenRange> holes = {};  // in what is known

    std::uint32_t cached_tokens() const;
  };

  explicit SimulatedPages(const ServingSettings& serving);

  bool shares_prefixes() const { return cache_.has_value(); }

  // As PageCache's; `tokens` may be empty where prefixes are not kept.
  std::optional<Grant> reserve(LeaseId id, std::span<const std::int32_t> tokens, const PageDemand& demand,
                               Time now);
  std::optional<std::uint32_t> extend(LeaseId id, const PageDemand& demand, Time now);
  // Whole pages, from the lease's first_page on.
  void commit(LeaseId id, std::uint32_t first_page, std::span<const std::int32_t> tokens);
  // After the commits of a batch: what the server's cache tier does then.
  void copy_ahead(Time now);
  void release(LeaseId id, Time now);

  PageCounts counts() const;
  std::uint32_t num_available() const;

 private:
  std::uint32_t page_size_;
  std::uint32_t num_pages_;
  std::optional<PageCache> cache_;
  // Where they are only counted:
  std::uint32_t num_taken_ = 0;
  std::unordered_map<LeaseId, std::uint32_t> taken_by_;
};

}  // namespace troupe::loadgen
