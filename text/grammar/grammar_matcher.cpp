// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_matcher.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "text/grammar/grammar_masks.hpp"

namespace troupe {

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const GrammarVocabulary> vocabulary)
    : masks_(std::make_shared<GrammarMasks>(std::move(grammar), std::move(vocabulary))) {
  const GrammarMasks::Place place = masks_->start();
  state_ = place.state;
  may_end_ = place.may_end;
  is_finished_ = place.may_end && !place.reads_more;
}

bool GrammarMatcher::accept(TokenId token) {
  if (has_ended_) return false;
  if (masks_->vocabulary().is_end(token)) {
    if (!may_end_) return false;
    has_ended_ = is_finished_ = true;
    return true;
  }
  const auto place = masks_->step(state_, token);
  if (!place) return false;
  state_ = place->state;
  may_end_ = place->may_end;
  is_finished_ = place->may_end && !place->reads_more;
  // Not before the step: the mask that allowed the token was made of these states.
  if (masks_->is_full()) std::tie(masks_, state_) = masks_->successor(state_);
  return true;
}

void GrammarMatcher::allow(std::span<std::uint32_t> mask) const {
  if (has_ended_)
    std::fill(mask.begin(), mask.end(), 0);
  else
    masks_->write_mask(state_, mask);
}

std::size_t GrammarMatcher::size_bytes() const { return masks_->size_bytes(); }

std::shared_ptr<const std::vector<std::uint32_t>> GrammarMatcher::free_tokens() const {
  return has_ended_ ? nullptr : masks_->free_tokens(state_);
}

}  // namespace troupe
