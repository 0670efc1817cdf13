// SPDX-License-Identifier: Apache-2.0
#include "actors/kept_turn.hpp"

#include <utility>

namespace troupe {

KeptTurn::KeptTurn(std::shared_ptr<const GenerationRequest> request) {
  const ConversationTurn& turn = *request->turn;
  response_.id = request->id;
  response_.tenant = request->tenant;
  response_.previous = turn.previous;
  response_.created = turn.created;
  response_.instructions = turn.instructions;
  response_.settings = turn.settings;
  for (const auto& message : std::get<ChatPrompt>(request->prompt).messages)
    response_.input.push_back({message.role, message.content});
}

void KeptTurn::take_prompt(const std::vector<std::int32_t>& prompt, std::size_t num_inherited) {
  response_.extends_previous = num_inherited > 0;
  response_.tokens.assign(prompt.begin() + static_cast<std::ptrdiff_t>(num_inherited), prompt.end());
}

StoredResponse KeptTurn::finish(const Finished& finished, const ServedModel& model,
                                std::chrono::seconds keep) {
  response_.model = model.name;
  response_.vocabulary = model.vocabulary;
  response_.expires = response_.created + keep.count();
  response_.is_complete = finished.reason == FinishReason::kStop;
  response_.prompt_tokens = finished.usage.prompt_tokens;
  response_.completion_tokens = finished.usage.completion_tokens;
  response_.cached_tokens = finished.usage.cached_tokens;
  return std::move(response_);
}

}  // namespace troupe
