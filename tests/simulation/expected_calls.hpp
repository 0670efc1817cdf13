// SPDX-License-Identifier: Apache-2.0
// Requests with tools for the simulated model, and what it answers to them, by the grammar of its calls
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "gpu/program/batch.hpp"
#include "text/answer/answer_parser.hpp"
#include "text/chat_template.hpp"
#include "text/grammar/grammar_matcher.hpp"

namespace troupe::sim {

// Calls begin with a letter that its texts have, too.
std::shared_ptr<const ChatTemplate> sim_chat_template();
ChatPrompt sim_tools_prompt(std::string text);
// Parts of an answer's text; a call as its name and arguments.
struct SplitAnswer {
  std::string text, calls;
};
void add_calls(std::string& calls, const std::vector<CallDelta>& more);
SplitAnswer split_answer(const std::string& answer, bool is_cut);

// The masks of one answer.
class ExpectedCalls {
 public:
  explicit ExpectedCalls(std::vector<std::int32_t> stop_tokens);

  // draw: a token of a mask, of which an empty one has all; `again`: by another number than the first one.
  using Draw = std::function<std::int32_t(const TokenMask& mask, bool again)>;
  std::int32_t next(const Draw& draw) const;
  void take(std::int32_t token);

 private:
  GrammarMatcher matcher_;
  std::vector<std::int32_t> stop_tokens_;
};

}  // namespace troupe::sim
