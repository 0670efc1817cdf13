// SPDX-License-Identifier: Apache-2.0
// The KV pages of a simulated worker: the page pool of the server where
// prefixes are shared, else only how many are taken, which comes to the same
// and is far cheaper.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "policy/cost_profile.hpp"
#include "policy/page_pool.hpp"

namespace troupe::loadgen {

class SimulatedPages {
 public:
  struct Grant {
    std::uint32_t num_pages = 0;
    std::uint32_t cached_tokens = 0;
  };

  explicit SimulatedPages(const ServingSettings& serving);

  bool shares_prefixes() const { return pool_.has_value(); }

  // As PagePool's; `tokens` may be empty where prefixes are not shared.
  std::optional<Grant> reserve(ReservationId id, std::span<const std::int32_t> tokens,
                               const PageDemand& demand);
  std::optional<std::uint32_t> extend(ReservationId id, const PageDemand& demand);
  void commit(ReservationId id, std::span<const std::int32_t> tokens);  // whole pages
  void release(ReservationId id);

  PageCounts counts() const;
  std::uint32_t num_available() const;

 private:
  std::uint32_t page_size_;
  std::uint32_t num_pages_;
  std::optional<PagePool> pool_;
  // Where they are only counted:
  std::uint32_t num_taken_ = 0;
  std::unordered_map<ReservationId, std::uint32_t> taken_by_;
};

}  // namespace troupe::loadgen
