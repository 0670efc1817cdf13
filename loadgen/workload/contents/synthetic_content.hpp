// SPDX-License-Identifier: Apache-2.0
// Conversations of drawn lengths: turns, think times, and prefixes that many
// conversations share. Only lengths are planned; prompt_writer makes the words.
#pragma once

#include <optional>
#include <vector>

#include "loadgen/workload/contents/conversation_content.hpp"
#include "loadgen/workload/distribution.hpp"

namespace troupe::loadgen {

class SyntheticContent final : public ConversationContent {
 public:
  SyntheticContent(const ClassSettings& settings, std::uint32_t class_index, std::uint64_t seed);
  bool fill(std::uint64_t number, PlannedConversation& conversation) override;

 private:
  PrefixBlock draw_prefix(std::uint64_t number) const;

  Distribution prompt_tokens_;
  std::optional<Distribution> first_prompt_tokens_;
  Distribution output_tokens_;
  std::optional<Distribution> output_ratio_;  // instead
  Distribution num_turns_;
  Distribution think_time_s_;
  std::uint32_t prefix_tokens_;
  std::vector<double> prefix_shares_;  // cumulated: the k-th ends where the next begins
  std::uint32_t class_index_;
  std::uint64_t seed_;
};

}  // namespace troupe::loadgen
