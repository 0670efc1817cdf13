// SPDX-License-Identifier: Apache-2.0
#include "actors/prompt_encoder.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/prompt_encoding.hpp"

namespace troupe {
namespace {

PromptEncoded encode(const ServedModel& model, const EncodePrompt& message) {
  auto encoded = encode_prompt(model, *message.request, message.conversation.get());
  if (auto* error = std::get_if<ApiError>(&encoded)) return {.prompt = nullptr, .error = std::move(*error)};
  return {.prompt = std::make_shared<const EncodedPrompt>(std::get<EncodedPrompt>(std::move(encoded))),
          .error = {}};
}

}  // namespace

PromptEncoderActor::behavior_type make_prompt_encoder(
    PromptEncoderActor::stateful_pointer<PromptEncoderState> self, Environment environment) {
  follow_rules(self, environment);
  self->state.census = std::make_unique<CensusEntry>(environment->census);
  return {
      [self, environment](const EncodePrompt& message) {
        if (message.is_abandoned->load()) return;
        const auto requester = caf::actor_cast<RequestActor>(self->current_sender());
        self->send(requester, encode(environment->model, message));
      },
  };
}

}  // namespace troupe
