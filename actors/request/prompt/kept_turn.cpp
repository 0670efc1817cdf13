// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/kept_turn.hpp"

#include <utility>

#include "actors/request/answer/stored_items.hpp"
#include "actors/request/prompt/conversation_prompt.hpp"

namespace troupe {

KeptTurn::KeptTurn(std::shared_ptr<const GenerationRequest> request) : request_(std::move(request)) {
  const ConversationTurn& turn = *request_->turn;
  response_.id = request_->id;
  response_.tenant = request_->tenant;
  response_.previous = turn.previous;
  response_.created = turn.created;
  response_.instructions = turn.instructions;
  response_.settings = turn.settings;
  const auto& prompt = std::get<ChatPrompt>(request_->prompt);
  for (const auto& message : prompt.messages) append_items(response_.input, message);
}

void KeptTurn::take_prompt(const std::vector<std::int32_t>& prompt, std::size_t num_inherited) {
  response_.extends_previous = num_inherited > 0;
  response_.tokens.assign(prompt.begin() + static_cast<std::ptrdiff_t>(num_inherited), prompt.end());
}

// Log-probabilities are not stored.
void KeptTurn::add(const TextDelta& delta) {
  for (const AnswerPiece& piece : pieces_of(delta)) answer_.add(piece);
}

StoredResponse KeptTurn::finish(const Finished& finished, const ServedModel& model,
                                std::chrono::seconds keep) {
  response_.model = model.name;
  response_.vocabulary = tokens_origin(model, std::get<ChatPrompt>(request_->prompt));
  keep_answer(response_, std::move(answer_), request_->turn->tool_names);
  response_.expires = response_.created + keep.count();
  response_.is_complete = finished.reason == FinishReason::kStop;
  response_.prompt_tokens = finished.usage.prompt_tokens;
  response_.completion_tokens = finished.usage.completion_tokens;
  response_.cached_tokens = finished.usage.cached_tokens;
  return std::move(response_);
}

}  // namespace troupe
