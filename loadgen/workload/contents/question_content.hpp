// SPDX-License-Identifier: Apache-2.0
// Questions whose right answers are known, like the demo model's held-out ones:
// a JSON list of {"category": …, "messages": [{"role": …, "content": …}, …],
// "expected": …, "expected_tokens": …}; the last one may be missing. The user's messages become
// turns; what the assistant said between them is the right answer of the turn before.
#pragma once

#include <cstdint>
#include <vector>

#include "loadgen/workload/contents/conversation_content.hpp"
#include "loadgen/workload/distribution.hpp"

namespace troupe::loadgen {

class QuestionContent final : public ConversationContent {
 public:
  // Reads the whole file. Throws std::runtime_error with file and line.
  QuestionContent(const ClassSettings& settings, std::uint64_t seed);

  // In an order by the seed; each once before any is asked twice.
  bool fill(std::uint64_t number, PlannedConversation& conversation) override;

 private:
  struct Question {
    std::string system_text;
    std::vector<PlannedTurn> turns;
  };

  std::vector<Question> questions_;
  std::vector<std::size_t> order_;  // of this round
  std::uint64_t num_asked_ = 0;
  Distribution think_time_s_;
  std::uint64_t seed_;
};

}  // namespace troupe::loadgen
