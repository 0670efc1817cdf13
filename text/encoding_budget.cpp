// SPDX-License-Identifier: Apache-2.0
#include "text/encoding_budget.hpp"

namespace troupe {

void EncodingBudget::begin_text(std::size_t bytes) {
  max_steps_ = num_steps_ + kFreeSteps + kStepsAByte * bytes;
}

void EncodingBudget::check() {
  next_check_ = num_steps_ + kStepsAQuestion;
  if (num_steps_ > max_steps_)
    throw EncodingStopped(
        EncodingStop::kTooMuchWork,
        "the tokenizer takes more than " + std::to_string(kStepsAByte) + " steps for each byte of the text");
  ask();
}

void EncodingBudget::ask() const {
  if (is_interrupted_ && is_interrupted_())
    throw EncodingStopped(EncodingStop::kInterrupted, "the encoding was interrupted");
}

void EncodingBudget::refuse_tokens() const {
  throw EncodingStopped(EncodingStop::kTooManyTokens,
                        "the text has more than " + std::to_string(max_tokens_) + " tokens");
}

}  // namespace troupe
