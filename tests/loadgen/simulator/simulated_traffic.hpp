// SPDX-License-Identifier: Apache-2.0
// Profiles and plans for tests of the simulator, with numbers one can follow.
#pragma once

#include <utility>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe::loadgen {

// Each batch takes a millisecond, whatever is in it.
inline CostProfile plain_profile() {
  CostProfile profile;
  profile.serving.limits = {.context_length = 1024, .page_capacity = 4096, .vocabulary_size = 100};
  profile.serving.settings = {.max_batch_tokens = 64,
                              .max_batch_sequences = 8,
                              .prefill_chunk = 32,
                              .itl_factor = 0,
                              .cache_policy = EvictionPolicy::kNone,
                              .keep_free = 0};
  profile.serving.page_size = 16;
  profile.serving.num_pages = 256;
  profile.iteration.fixed = 1e6;
  return profile;
}

inline IterationCost fixed_cost(double nanoseconds) {
  IterationCost cost;
  cost.fixed = nanoseconds;
  return cost;
}

class ListedConversations final : public ConversationSource {
 public:
  explicit ListedConversations(std::vector<PlannedConversation> conversations)
      : conversations_(std::move(conversations)) {}

  bool next(PlannedConversation& conversation) override {
    if (next_ == conversations_.size()) return false;
    conversation = conversations_[next_];
    conversation.number = next_++;
    return true;
  }

 private:
  std::vector<PlannedConversation> conversations_;
  std::size_t next_ = 0;
};

inline PlannedConversation lone_request(std::chrono::nanoseconds start, std::uint32_t prompt_tokens,
                                        std::uint32_t output_tokens) {
  PlannedConversation conversation;
  conversation.start = start;
  conversation.turns.resize(1);
  conversation.turns[0].prompt_tokens = prompt_tokens;
  conversation.turns[0].output_tokens = output_tokens;
  return conversation;
}

}  // namespace troupe::loadgen
