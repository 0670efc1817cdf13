// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/dialogue.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::loadgen {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

Dialogue::Dialogue(PlannedConversation plan) : plan_(std::move(plan)) {
  if (!plan_.system_text.empty()) messages_.push_back({"system", plan_.system_text});
}

std::string Dialogue::next_body(Endpoint endpoint, SamplingFields common, const RequestClass& request_class,
                                const TurnPrompts& prompts, bool tells_lengths) {
  const auto& turn = planned_turn();
  common.max_tokens = turn.output_tokens > 0 ? turn.output_tokens : request_class.max_tokens;
  common.ignore_eos = request_class.ignore_eos && turn.output_tokens > 0;
  if (tells_lengths) common.foretold_tokens = common.ignore_eos ? turn.output_tokens : turn.answer_tokens;
  if (prompts.ids) {
    if (endpoint != Endpoint::kCompletions || plan_.turns.size() > 1)
      throw std::runtime_error(
          "prompts of token ids need the completions endpoint and conversations of one turn");
    return completion_body(common, prompts.ids(plan_, turn_));
  }
  if (endpoint == Endpoint::kEmbeddings) return embedding_body(common, prompts.words(plan_, turn_));
  if (endpoint == Endpoint::kClassify) return classify_body(common, prompts.words(plan_, turn_));
  if (endpoint == Endpoint::kResponses)
    return response_body(common, prompts.words(plan_, turn_), turn_ == 0 ? plan_.system_text : "",
                         response_id_);
  messages_.push_back({"user", prompts.words(plan_, turn_)});
  if (endpoint == Endpoint::kChat) return chat_body(common, messages_);
  std::string prompt;
  for (const auto& message : messages_) {
    if (!prompt.empty()) prompt += '\n';
    prompt += message.text;
  }
  return completion_body(common, prompt);
}

void Dialogue::add_answer(std::string text, std::string response_id) {
  response_id_ = std::move(response_id);
  messages_.push_back({"assistant", std::move(text)});
  ++turn_;
}

bool is_right_answer(const PlannedTurn& turn, std::string_view text) {
  return trimmed(text) == trimmed(turn.answer);
}

}  // namespace troupe::loadgen
