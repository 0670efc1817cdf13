// SPDX-License-Identifier: Apache-2.0
// Which tokens a sequence's penalties are for and how often each was generated,
// kept up to date token by token, so that a step costs a copy and no counting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe {

class TokenCounts {
 public:
  // repeated_prompt: ids of the prompt that count, each once, ascending.
  explicit TokenCounts(std::span<const std::int32_t> repeated_prompt);

  void add(std::int32_t token);  // it was generated
  const std::vector<PenalizedToken>& tokens() const { return tokens_; }

 private:
  std::vector<PenalizedToken> tokens_;  // the prompt's, ascending, then as they came
  std::size_t num_prompt_tokens_;
  // In tokens_, of those behind the prompt's.
  std::unordered_map<std::int32_t, std::size_t> places_;
};

}  // namespace troupe
