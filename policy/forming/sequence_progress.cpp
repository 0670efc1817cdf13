// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/sequence_progress.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {

std::optional<SequenceStep> SequenceProgress::next_step(std::uint32_t max_tokens,
                                                        std::uint32_t page_capacity) const {
  if (max_tokens == 0) return std::nullopt;
  if (reads_source_next()) {
    if (std::min(max_tokens, page_capacity) < num_source_) return std::nullopt;
    return SequenceStep{.num_tokens = num_source_, .reads_source = true};
  }
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

void SequenceProgress::start(std::uint32_t num_cached, std::vector<TokenRange> holes) {
  assert(num_cached < num_known_ && num_in_flight_ == 0);
  assert(holes.empty() || holes.back().end <= num_cached);
  assert(num_cached == 0 || num_cached >= num_source_);
  assert(holes.empty() || holes.front().begin >= num_source_);
  num_submitted_ = num_computed_ = num_cached;
  holes_ = std::move(holes);
}

void SequenceProgress::draw_by_permission(bool may_draw) {
  draws_by_permission_ = true;
  may_draw_ = may_draw;
}

void SequenceProgress::draw_ahead() {
  draws_by_permission_ = false;
  may_draw_ = true;
}

void SequenceProgress::take_back_draws() {
  assert(num_pending_ > 0 && holes_.empty());
  num_submitted_ = num_computed_;
  num_pending_ = 0;
}

void SequenceProgress::drop_step() {
  assert(num_in_flight_ > 0);
  num_in_flight_ -= 1;
}

// A draw that is lost is still permitted.
void SequenceProgress::restart() {
  may_draw_ = may_draw_ || num_pending_ > 0;
  num_submitted_ = num_computed_ = num_pending_ = num_in_flight_ = 0;
  holes_.clear();
}

}  // namespace troupe
