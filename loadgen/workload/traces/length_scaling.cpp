// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/length_scaling.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::loadgen {
namespace {

std::uint32_t scaled(std::uint32_t num_tokens, double factor) {
  if (num_tokens == 0) return 0;
  return static_cast<std::uint32_t>(std::clamp(std::round(num_tokens * factor), 1.0, 1e9));
}

// Rounded down, so that the sum fits; something stays something.
std::uint32_t shrunk(std::uint32_t num_tokens, double factor) {
  return std::max(std::min(1U, num_tokens), static_cast<std::uint32_t>(num_tokens * factor));
}

bool has_text(const PlannedConversation& conversation) {
  return std::any_of(conversation.turns.begin(), conversation.turns.end(),
                     [](const auto& turn) { return !turn.text.empty(); });
}

std::uint64_t prefix_tokens_of(const PlannedConversation& conversation) {
  std::uint64_t total = 0;
  for (const auto& block : conversation.prefix) total += block.num_tokens;
  return total;
}

std::uint64_t tokens_of(const PlannedConversation& conversation) {
  std::uint64_t total = prefix_tokens_of(conversation);
  for (const auto& turn : conversation.turns) total += std::uint64_t{turn.prompt_tokens} + turn.output_tokens;
  return total;
}

void cut_prefix(std::vector<PrefixBlock>& prefix, std::uint64_t max_tokens) {
  for (auto& block : prefix) {
    block.num_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(block.num_tokens, max_tokens));
    max_tokens -= block.num_tokens;
  }
  std::erase_if(prefix, [](const auto& block) { return block.num_tokens == 0; });
}

}  // namespace

void scale_lengths(PlannedConversation& conversation, double factor) {
  for (auto& block : conversation.prefix) block.num_tokens = scaled(block.num_tokens, factor);
  for (auto& turn : conversation.turns) {
    turn.prompt_tokens = scaled(turn.prompt_tokens, factor);
    turn.output_tokens = scaled(turn.output_tokens, factor);
    turn.text.clear();
    turn.answer.clear();
  }
}

bool shrink_to_fit(PlannedConversation& conversation, std::uint32_t max_tokens) {
  auto& turns = conversation.turns;
  if (has_text(conversation)) {
    while (!turns.empty() && tokens_of(conversation) > max_tokens) turns.pop_back();
    return !turns.empty();
  }
  // Each turn keeps at least one token in and one out.
  while (turns.size() > std::max(1U, max_tokens / 2)) turns.pop_back();
  for (auto total = tokens_of(conversation); total > max_tokens;) {
    const double factor = static_cast<double>(max_tokens) / static_cast<double>(total);
    cut_prefix(conversation.prefix,
               static_cast<std::uint64_t>(static_cast<double>(prefix_tokens_of(conversation)) * factor));
    for (auto& turn : turns) {
      turn.prompt_tokens = shrunk(turn.prompt_tokens, factor);
      turn.output_tokens = shrunk(turn.output_tokens, factor);
    }
    const auto now = tokens_of(conversation);
    if (now == total) break;
    total = now;
  }
  return tokens_of(conversation) <= max_tokens;
}

}  // namespace troupe::loadgen
