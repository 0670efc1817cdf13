// SPDX-License-Identifier: Apache-2.0
#include "policy/batch_former.hpp"

#include <algorithm>

namespace troupe {
namespace {

// One step; of a sequence with holes as many as it takes to get past them.
// Returns their tokens.
std::uint32_t add_steps(const BatchCandidate& candidate, std::size_t index, std::uint32_t most,
                        std::vector<BatchShare>& shares) {
  const SequenceProgress& progress = *candidate.progress;
  auto step = progress.next_step(most, candidate.page_capacity);
  if (!step) return 0;
  shares.push_back({.candidate = index, .step = *step});
  std::uint32_t num_tokens = step->num_tokens;
  if (!step->fills_hole) return num_tokens;
  for (SequenceProgress ahead = progress; step->fills_hole && num_tokens < most;) {
    ahead.submitted(*step);
    step = ahead.next_step(most - num_tokens, candidate.page_capacity);
    if (!step) break;
    shares.push_back({.candidate = index, .step = *step});
    num_tokens += step->num_tokens;
  }
  return num_tokens;
}

}  // namespace

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
      budget -= add_steps(candidate, i, most, shares);
    }
  }
  std::stable_sort(shares.begin(), shares.end(),
            [](const BatchShare& a, const BatchShare& b) { return a.candidate < b.candidate; });
  return shares;
}

}  // namespace troupe
