// SPDX-License-Identifier: Apache-2.0
// A plan in figures: how many conversations and turns, when, how
// long, and how much of the prompts an unlimited prefix cache would find.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_set>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

struct LengthStatistics {
  double mean = 0;
  std::uint32_t p50 = 0;
  std::uint32_t p99 = 0;
  std::uint32_t max = 0;
};

// All 0 if there are none. Reorders the lengths.
LengthStatistics length_statistics(std::vector<std::uint32_t>& lengths);

class PlanSummary {
 public:
  explicit PlanSummary(const std::vector<RequestClass>& classes);

  void add(const PlannedConversation& conversation);

  std::uint64_t num_conversations() const;
  std::uint64_t num_turns() const;
  // Share, among all tokens in prefix blocks, of those whose block had come before.
  double repeated_prefix_share() const;

  void print(std::ostream& out);

 private:
  struct Class {
    std::string name;
    std::uint64_t num_conversations = 0;
    std::vector<std::uint32_t> prompt_tokens;  // of each turn, the prefix with the first; no history
    std::vector<std::uint32_t> output_tokens;  // of each turn that says how many
  };

  std::vector<Class> classes_;
  std::chrono::nanoseconds last_start_{0};
  std::unordered_set<std::uint64_t> seen_blocks_;
  std::uint64_t prefix_tokens_ = 0;
  std::uint64_t repeated_prefix_tokens_ = 0;
};

}  // namespace troupe::loadgen
