// SPDX-License-Identifier: Apache-2.0
#include "engine/token_counts.hpp"

#include <algorithm>

namespace troupe {

TokenCounts::TokenCounts(std::span<const std::int32_t> repeated_prompt)
    : num_prompt_tokens_(repeated_prompt.size()) {
  tokens_.reserve(repeated_prompt.size());
  for (const std::int32_t id : repeated_prompt) tokens_.push_back({.id = id, .num_generated = 0});
}

void TokenCounts::add(std::int32_t token) {
  const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(num_prompt_tokens_);
  const auto found = std::lower_bound(
      tokens_.begin(), end, token, [](const PenalizedToken& left, std::int32_t id) { return left.id < id; });
  if (found != end && found->id == token) {
    found->num_generated += 1;
    return;
  }
  const auto [place, is_new] = places_.try_emplace(token, tokens_.size());
  if (is_new) tokens_.push_back({.id = token, .num_generated = 0});
  tokens_[place->second].num_generated += 1;
}

}  // namespace troupe
