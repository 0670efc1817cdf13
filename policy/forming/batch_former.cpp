// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/batch_former.hpp"

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

// A batch that is being formed: what it has, and what is left of its limits.
class Forming {
 public:
  Forming(std::span<const BatchCandidate> candidates, const BatchLimits& limits)
      : candidates_(candidates),
        limits_(limits),
        budget_(limits.max_tokens),
        spare_rows_(limits.max_sequences - static_cast<std::uint32_t>(std::min<std::size_t>(
                                               candidates.size(), limits.max_sequences))) {
    shares_.reserve(std::min<std::size_t>(candidates.size(), limits.max_sequences));
  }

  void add_decodes();
  void add_prompts();
  bool is_empty() const { return shares_.empty(); }
  std::vector<BatchShare> take() &&;

 private:
  struct FlowPrompts {
    std::uint64_t flow = 0;
    std::vector<std::size_t> candidates;
    std::uint64_t num_wanted = 0;  // tokens, chunk by chunk
  };

  bool is_full() const { return budget_ == 0 || shares_.size() >= limits_.max_sequences; }
  std::vector<FlowPrompts> prompts_by_flow() const;
  void limit_prompts();
  std::uint32_t count_wanted(std::size_t index) const;
  std::uint32_t add(std::size_t index, std::uint32_t most);

  std::span<const BatchCandidate> candidates_;
  const BatchLimits& limits_;
  std::vector<BatchShare> shares_;
  std::uint32_t budget_;      // tokens
  std::uint32_t spare_rows_;  // of logits
};

// A sequence that decodes has no holes, and nothing to score.
void Forming::add_decodes() {
  for (std::size_t i = 0; i < candidates_.size() && !is_full(); ++i) {
    const BatchCandidate& candidate = candidates_[i];
    if (candidate.progress->is_prefilling()) continue;
    const auto step = candidate.progress->next_step(1, candidate.page_capacity);
    if (!step) continue;
    shares_.push_back({.candidate = i, .step = *step});
    budget_ -= 1;
  }
}

// Steps of sequences that decode are in the batch already.
void Forming::limit_prompts() {
  budget_ = std::min(budget_, limits_.max_lone_prompt_tokens);
  if (!shares_.empty()) budget_ = std::min(budget_, limits_.max_prompt_tokens);
}

// The flow that wants least first: what it leaves is shared by the others.
void Forming::add_prompts() {
  limit_prompts();
  auto flows = prompts_by_flow();
  std::stable_sort(flows.begin(), flows.end(),
                   [](const FlowPrompts& a, const FlowPrompts& b) { return a.num_wanted < b.num_wanted; });
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const auto num_left = static_cast<std::uint32_t>(flows.size() - f);
    std::uint32_t granted = (budget_ + num_left - 1) / num_left;
    for (const std::size_t index : flows[f].candidates) {
      if (granted == 0 || is_full()) break;
      granted -= add(index, std::min(granted, limits_.prefill_chunk));
    }
  }
}

// In order of their first candidates. What a flow wants is counted only if there
// are others.
std::vector<Forming::FlowPrompts> Forming::prompts_by_flow() const {
  std::vector<FlowPrompts> flows;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const SequenceProgress& progress = *candidates_[i].progress;
    if (!progress.is_prefilling() || progress.reads_source_next()) continue;
    auto flow = std::find_if(flows.begin(), flows.end(),
                             [&](const FlowPrompts& known) { return known.flow == candidates_[i].flow; });
    if (flow == flows.end()) flow = flows.insert(flow, {.flow = candidates_[i].flow, .candidates = {}});
    flow->candidates.push_back(i);
  }
  if (flows.size() < 2) return flows;
  for (FlowPrompts& flow : flows)
    for (const std::size_t index : flow.candidates) {
      if (flow.num_wanted >= budget_) break;
      flow.num_wanted += count_wanted(index);
    }
  return flows;
}

std::uint32_t Forming::count_wanted(std::size_t index) const {
  std::uint32_t most = std::min(budget_, limits_.prefill_chunk);
  if (candidates_[index].progress->scores_next()) most = std::min(most, 1 + spare_rows_);
  std::vector<BatchShare> shares;
  return add_steps(candidates_[index], index, most, shares);
}

// Returns the tokens that it took.
std::uint32_t Forming::add(std::size_t index, std::uint32_t most) {
  const bool scores = candidates_[index].progress->scores_next();
  if (scores) most = std::min(most, 1 + spare_rows_);
  const std::uint32_t num_tokens = add_steps(candidates_[index], index, most, shares_);
  if (scores && num_tokens > 0) spare_rows_ -= num_tokens - 1;
  budget_ -= num_tokens;
  return num_tokens;
}

std::vector<BatchShare> Forming::take() && {
  const auto comes_first = [](const BatchShare& a, const BatchShare& b) { return a.candidate < b.candidate; };
  if (!std::is_sorted(shares_.begin(), shares_.end(), comes_first))
    std::stable_sort(shares_.begin(), shares_.end(), comes_first);
  const bool has_lists = std::any_of(candidates_.begin(), candidates_.end(), [](const auto& candidate) {
    return candidate.num_penalized_tokens > 0;
  });
  if (has_lists) leave_out_long_lists(candidates_, limits_.max_penalized_tokens, shares_);
  return std::move(shares_);
}

}  // namespace

std::vector<BatchShare> form_batch(std::span<const BatchCandidate> candidates, const BatchLimits& limits) {
  Forming batch(candidates, limits);
  if (!limits.separates_prefill) {
    batch.add_decodes();
    batch.add_prompts();
  } else {
    batch.add_prompts();
    if (batch.is_empty()) batch.add_decodes();
  }
  return std::move(batch).take();
}

std::vector<BatchShare> form_source_batch(std::span<const BatchCandidate> candidates,
                                          const BatchLimits& limits) {
  std::vector<BatchShare> shares;
  std::uint32_t budget = limits.max_tokens;
  for (std::size_t i = 0; i < candidates.size() && shares.size() < limits.max_sequences; ++i) {
    if (!candidates[i].progress->reads_source_next()) continue;
    const auto step = candidates[i].progress->next_step(budget, candidates[i].page_capacity);
    if (!step) break;
    shares.push_back({.candidate = i, .step = *step});
    budget -= step->num_tokens;
  }
  return shares;
}

}  // namespace troupe
