// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/single_turn.hpp"

#include <algorithm>

namespace troupe::loadgen {

void plan_single_turn(PlannedConversation& conversation, std::chrono::nanoseconds start,
                      std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
  conversation.start = start;
  conversation.system_text.clear();
  conversation.prefix.clear();
  conversation.turns.assign(1, PlannedTurn{});
  conversation.turns.front().prompt_tokens = std::max(1U, prompt_tokens);
  conversation.turns.front().output_tokens = output_tokens;
}

std::vector<std::string> unanswered_warning(const std::string& name, std::uint64_t count) {
  if (count == 0) return {};
  return {name + ": requests left out because they got no answer: " + std::to_string(count)};
}

}  // namespace troupe::loadgen
