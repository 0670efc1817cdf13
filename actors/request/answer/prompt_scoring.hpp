// SPDX-License-Identifier: Apache-2.0
// Turns the log-probabilities of a prompt into what its client gets, some tokens at a
// time: those of a long prompt take tens of milliseconds, in which a thread that
// actors share would do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/request/answer/answer_tokens.hpp"
#include "actors/request/generation_request.hpp"
#include "text/detokenizer.hpp"

namespace troupe {

// One thread.
class PromptScoring {
 public:
  using Logprobs = std::shared_ptr<const std::vector<TokenLogprobs>>;
  struct Wish {
    std::optional<std::uint32_t> num_alternatives = {};  // of PromptScores; absent: none are wanted
    AnswerTokens* echo = nullptr;                        // takes the tokens of the prompt; null: no echo
    StreamingDetokenizer* detokenizer = nullptr;         // of the echo; the answer goes on with it
  };

  // Tokenizer, prompt, echo and its detokenizer outlive this. logprobs: from the prompt's second token on.
  PromptScoring(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt, Logprobs logprobs,
                Wish wish);

  // The next tokens, at most so many; the text that an echo shows of them.
  std::string score(std::size_t max_tokens);
  bool is_done() const { return next_ == prompt_.size(); }
  // When it is done; null: they were not wanted.
  std::shared_ptr<const PromptScores> take_scores();

 private:
  const Tokenizer& tokenizer_;
  const std::span<const std::int32_t> prompt_;
  const Logprobs logprobs_;
  const Wish wish_;
  std::vector<AnswerToken> tokens_;
  std::size_t next_ = 0;  // of prompt_
};

}  // namespace troupe
