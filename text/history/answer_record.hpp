// SPDX-License-Identifier: Apache-2.0
// Gathers an answer while it is drawn: its tokens, and the message that its client will
// send back with the next turn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_parser.hpp"
#include "text/chat_message.hpp"
#include "text/history/history_encoding.hpp"
#include "text/history/turn_memory.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// A token of an answer as text: a special one as it is spelled.
std::string_view spelling_in_answer(const Tokenizer& tokenizer, TokenId token);

// One thread.
class AnswerRecord {
 public:
  AnswerRecord(PromptParts prompt, std::string tenant)
      : prompt_(std::move(prompt)), tenant_(std::move(tenant)), message_{.role = "assistant"} {}

  // A token of the answer; not the one that ends it.
  void add_token(TokenId token) { tokens_.push_back(token); }
  // The text and the calls that the client gets.
  void add_text(std::string_view text) { message_.content += text; }
  void add_calls(const std::vector<CallDelta>& calls);

  // At the answer's end, once.
  void remember(const Tokenizer& tokenizer, TurnMemory& memory);

 private:
  RememberedText with_answer(const Tokenizer& tokenizer);

  PromptParts prompt_;
  std::string tenant_;
  ChatMessage message_;
  std::vector<TokenId> tokens_;
};

}  // namespace troupe
