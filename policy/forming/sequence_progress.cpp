// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/sequence_progress.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {

std::optional<SequenceStep> SequenceProgress::next_step(std::uint32_t max_tokens,
                                                        std::uint32_t page_capacity) const {
  if (max_tokens == 0) return std::nullopt;
  if (!holes_.empty()) {
    const TokenRange& hole = holes_.front();
    return SequenceStep{
        .num_tokens = std::min(hole.size(), max_tokens), .context_length = hole.begin, .fills_hole = true};
  }
  if (!has_work() || page_capacity <= num_submitted_) return std::nullopt;
  SequenceStep step{.num_tokens = 1, .context_length = num_submitted_};
  if (num_pending_ > 0) {
    step.input_from_slot = true;
    step.sample = true;
    return step;
  }
  const std::uint32_t end = may_draw_ ? num_known_ : num_known_ - 1;
  step.num_tokens = std::min({end - num_submitted_, max_tokens, page_capacity - num_submitted_});
  if (num_submitted_ < num_scored_) {  // it has lost what was computed
    step.num_tokens = std::min(step.num_tokens, num_scored_ - num_submitted_);
  } else if (num_submitted_ < score_end_) {
    step.num_tokens = std::min(step.num_tokens, score_end_ - num_submitted_);
    step.scores = true;
  }
  step.sample = num_submitted_ + step.num_tokens == num_known_;
  return step;
}

bool SequenceProgress::can_decode() const {
  if (!may_draw_) return false;
  if (num_known_ + num_pending_ >= max_total_) return false;
  if (num_pending_ > 0) return num_pending_ < max_pending_;
  return num_submitted_ < num_known_;
}

std::uint32_t SequenceProgress::capacity_needed(std::uint32_t num_ahead) const {
  const std::uint32_t length = std::max(num_known_ + num_pending_, num_submitted_);
  // The KV of the very last token is never needed.
  return std::min(length + num_ahead, max_total_) - 1;
}

void SequenceProgress::start(std::uint32_t num_cached, std::vector<TokenRange> holes) {
  assert(num_cached < num_known_ && num_in_flight_ == 0);
  assert(holes.empty() || holes.back().end <= num_cached);
  num_submitted_ = num_computed_ = num_cached;
  holes_ = std::move(holes);
}

void SequenceProgress::submitted(const SequenceStep& step) {
  if (step.fills_hole) {
    TokenRange& hole = holes_.front();
    assert(step.context_length == hole.begin && step.num_tokens <= hole.size());
    hole.begin += step.num_tokens;
    if (hole.size() == 0) holes_.erase(holes_.begin());
    num_in_flight_ += 1;
    return;
  }
  assert(step.context_length == num_submitted_);
  num_submitted_ += step.num_tokens;
  num_pending_ += step.sample ? 1 : 0;
  if (step.sample && draws_by_permission_) may_draw_ = false;
  num_in_flight_ += 1;
}

void SequenceProgress::completed(const SequenceStep& step) {
  if (step.fills_hole) {
    assert(num_in_flight_ > 0);
    num_in_flight_ -= 1;
    return;
  }
  assert(step.context_length == num_computed_ && num_in_flight_ > 0);
  num_computed_ += step.num_tokens;
  num_in_flight_ -= 1;
  if (step.scores) num_scored_ = num_computed_;
  if (!step.sample) return;
  assert(num_pending_ > 0);
  num_pending_ -= 1;
  num_known_ += 1;
}

void SequenceProgress::draw_by_permission(bool may_draw) {
  draws_by_permission_ = true;
  may_draw_ = may_draw;
  max_pending_ = 1;
}

// A draw that is lost is still permitted.
void SequenceProgress::restart() {
  may_draw_ = may_draw_ || num_pending_ > 0;
  num_submitted_ = num_computed_ = num_pending_ = num_in_flight_ = 0;
  holes_.clear();
}

void SequenceProgress::limit_total(std::uint32_t max_total) { max_total_ = std::min(max_total_, max_total); }

}  // namespace troupe
