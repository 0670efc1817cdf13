// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/prompt_scoring.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

PromptScoring::PromptScoring(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                             Logprobs logprobs, Wish wish)
    : tokenizer_(tokenizer), prompt_(prompt), logprobs_(std::move(logprobs)), wish_(wish) {
  if (wish_.num_alternatives) tokens_.reserve(prompt_.size());
}

// An echo shows the tokens' own text, so that each has its place in it.
std::string PromptScoring::score(std::size_t max_tokens) {
  const std::size_t begin = next_;
  next_ = std::min(prompt_.size(), begin + max_tokens);
  if (wish_.num_alternatives)
    append_scored(tokens_, tokenizer_, prompt_, *logprobs_, {begin, next_}, *wish_.num_alternatives);
  std::string shown;
  if (wish_.echo == nullptr) return shown;
  for (std::size_t i = begin; i < next_; ++i) {
    i == 0 ? wish_.echo->add_first(prompt_[i]) : wish_.echo->add(prompt_[i], logprobs_->at(i - 1));
    const std::string text = wish_.detokenizer->push(prompt_[i]);
    wish_.echo->extend(text);
    shown += text;
  }
  return shown;
}

std::shared_ptr<const PromptScores> PromptScoring::take_scores() {
  if (!wish_.num_alternatives) return nullptr;
  return std::make_shared<const PromptScores>(PromptScores{.tokens = std::move(tokens_)});
}

}  // namespace troupe
