// SPDX-License-Identifier: Apache-2.0
#include "policy/batch_former.hpp"

#include <algorithm>

namespace troupe {

std::vector<BatchShare> form_batch(std::span<const BatchCandidate> candidates,
                                   const BatchLimits& limits) {
  std::vector<BatchShare> shares;
  shares.reserve(std::min<std::size_t>(candidates.size(), limits.max_sequences));
  std::uint32_t budget = limits.max_tokens;
  for (const bool prefilling : {false, true}) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (budget == 0 || shares.size() >= limits.max_sequences) break;
      const BatchCandidate& candidate = candidates[i];
      if (candidate.progress->is_prefilling() != prefilling) continue;
      const std::uint32_t most = prefilling ? std::min(budget, limits.prefill_chunk) : 1;
      const auto step = candidate.progress->next_step(most, candidate.page_capacity);
      if (!step) continue;
      budget -= step->num_tokens;
      shares.push_back({.candidate = i, .step = *step});
    }
  }
  std::sort(shares.begin(), shares.end(),
            [](const BatchShare& a, const BatchShare& b) { return a.candidate < b.candidate; });
  return shares;
}

}  // namespace troupe
