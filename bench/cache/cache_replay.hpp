// SPDX-License-Identifier: Apache-2.0
// Conversations played through the page cache alone, in virtual time: no device,
// no scheduler, only which pages are asked for when, and for how long.
#pragma once

#include <chrono>
#include <cstdint>

#include "loadgen/workload/planned_conversation.hpp"
#include "policy/pages/page_cache.hpp"

namespace troupe::bench {

struct ReplaySettings {
  PageCacheOptions cache;
  std::uint32_t num_device_pages = 0;
  // A request holds its pages for as long as these say; requests do not slow
  // each other down.
  std::chrono::nanoseconds per_computed_token{100'000};
  std::chrono::nanoseconds per_output_token{20'000'000};
  // Requests that come earlier fill the cache and are not counted.
  std::chrono::nanoseconds warmup{0};
};

struct ReplayTotals {
  std::uint64_t num_requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t tokens_from_device = 0, tokens_from_host = 0;
  // Computed before, by whomever: what a cache without end would have found.
  std::uint64_t seen_tokens = 0;
  // The part of them that was recomputed, and its cost.
  std::uint64_t recomputed_tokens = 0;
  double recompute_cost = 0;
  std::uint64_t num_refused = 0;  // larger than the device: left out

  double hit_ratio() const { return ratio(tokens_from_device + tokens_from_host); }
  double ceiling() const { return ratio(seen_tokens); }

 private:
  double ratio(std::uint64_t tokens) const {
    return prompt_tokens == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(prompt_tokens);
  }
};

// Requests wait in the order in which they came for pages to become free.
ReplayTotals replay(loadgen::ConversationSource& source, const ReplaySettings& settings);

}  // namespace troupe::bench
