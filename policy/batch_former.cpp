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
    if (ahead.scores_next()) break;
    step = ahead.next_step(most - num_tokens, candidate.page_capacity);
    if (!step) break;
    shares.push_back({.candidate = index, .step = *step});
    num_tokens += step->num_tokens;
  }
  return num_tokens;
}

// Takes out shares whose lists of penalized tokens do not fit. The first in turn
// stays in any case, so that a wrong limit shows at the device and nobody waits
// for ever.
void leave_out_long_lists(std::span<const BatchCandidate> candidates, std::uint32_t max_penalized_tokens,
                          std::vector<BatchShare>& shares) {
  std::vector<std::size_t> listed;  // candidates that draw and have a list
  std::uint64_t num_listed = 0;
  for (const BatchShare& share : shares) {
    const std::uint32_t length = candidates[share.candidate].num_penalized_tokens;
    if (!share.step.sample || length == 0) continue;
    listed.push_back(share.candidate);
    num_listed += length;
  }
  if (num_listed <= max_penalized_tokens) return;
  std::stable_sort(listed.begin(), listed.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].last_batch < candidates[b].last_batch;
  });
  std::vector<bool> is_left_out(candidates.size());
  std::uint64_t num_taken = candidates[listed.front()].num_penalized_tokens;
  for (std::size_t i = 1; i < listed.size(); ++i) {
    const std::uint32_t length = candidates[listed[i]].num_penalized_tokens;
    if (num_taken + length <= max_penalized_tokens) {
      num_taken += length;
    } else {
      is_left_out[listed[i]] = true;
    }
  }
  std::erase_if(shares,
                [&](const BatchShare& share) { return share.step.sample && is_left_out[share.candidate]; });
}

}  // namespace

std::vector<BatchShare> form_batch(std::span<const BatchCandidate> candidates, const BatchLimits& limits) {
  std::vector<BatchShare> shares;
  shares.reserve(std::min<std::size_t>(candidates.size(), limits.max_sequences));
  std::uint32_t budget = limits.max_tokens;
  std::uint32_t spare_rows =
      limits.max_sequences - std::min<std::size_t>(candidates.size(), limits.max_sequences);
  const bool prompts_first = limits.separates_prefill;
  for (const bool prefilling : {prompts_first, !prompts_first}) {
    if (limits.separates_prefill && !shares.empty()) break;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (budget == 0 || shares.size() >= limits.max_sequences) break;
      const BatchCandidate& candidate = candidates[i];
      if (candidate.progress->is_prefilling() != prefilling) continue;
      std::uint32_t most = prefilling ? std::min(budget, limits.prefill_chunk) : 1;
      const bool scores = candidate.progress->scores_next();
      if (scores) most = std::min(most, 1 + spare_rows);
      const std::uint32_t num_tokens = add_steps(candidate, i, most, shares);
      if (scores && num_tokens > 0) spare_rows -= num_tokens - 1;
      budget -= num_tokens;
    }
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const BatchShare& a, const BatchShare& b) { return a.candidate < b.candidate; });
  leave_out_long_lists(candidates, limits.max_penalized_tokens, shares);
  return shares;
}

}  // namespace troupe
