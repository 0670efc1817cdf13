// SPDX-License-Identifier: Apache-2.0
// The tokens of an answer, and of a prompt that is repeated in front of it, whose
// log-probabilities the client wants, from when they are known until the text they
// begin with is shown: text may wait for the rest of a character, or because it may
// still become a stop string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// Appends tokens [range.begin, range.end) of a prompt with at most max_top alternatives each; logprobs: from
// the prompt's second token on.
void append_scored(std::vector<AnswerToken>& tokens, const Tokenizer& tokenizer,
                   std::span<const std::int32_t> prompt, std::span<const TokenLogprobs> logprobs,
                   TextRange range, std::size_t max_top);

// One thread.
class AnswerTokens {
 public:
  // The tokenizer must outlive this. max_top: alternatives of a token that are kept.
  explicit AnswerTokens(const Tokenizer& tokenizer, std::int32_t max_top = kMaxTopLogprobs)
      : tokenizer_(&tokenizer), max_top_(static_cast<std::size_t>(max_top)) {}

  // A token that is part of the answer; its text begins where the known text ends.
  void add(std::int32_t token, const TokenLogprobs& logprobs);
  // The first token of all: nothing is known of it.
  void add_first(std::int32_t token);
  // The text that became known with it.
  void extend(std::string_view text);
  // More of the known text is shown: the tokens that begin in what now is.
  std::vector<AnswerToken> show(std::string_view text);
  // The tokens left when the last text has been shown.
  std::vector<AnswerToken> take_rest();

 private:
  struct Waiting {
    AnswerToken token;
    std::size_t begin = 0;  // in the known text, bytes
  };

  const Tokenizer* tokenizer_;
  std::size_t max_top_;
  std::deque<Waiting> waiting_;
  std::size_t num_known_bytes_ = 0;
  std::size_t num_shown_bytes_ = 0;
  std::uint32_t num_known_characters_ = 0;
};

}  // namespace troupe
