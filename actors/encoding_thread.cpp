// SPDX-License-Identifier: Apache-2.0
#include "actors/encoding_thread.hpp"

#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/request/prompt/prompt_encoding.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxBytesKept = std::size_t{4} << 20;

PromptEncoded encode(const ActorEnvironment& environment, const EncodePrompt& message,
                     std::function<bool()> is_over, std::string& buffer) {
  const PromptTerms terms{.limits = environment.board->serving_limits(message.request->model),
                          .is_interrupted = std::move(is_over),
                          .memory = environment.turns.get(),
                          .buffer = &buffer};
  auto encoded = encode_prompt(environment.models[message.request->model].served, *message.request,
                               message.conversation.get(), terms);
  if (buffer.capacity() > kMaxBytesKept) buffer = {};
  if (auto* error = std::get_if<ApiError>(&encoded)) return {.prompt = nullptr, .error = std::move(*error)};
  return {.prompt = std::make_shared<const EncodedPrompt>(std::get<EncodedPrompt>(std::move(encoded))),
          .error = {}};
}

}  // namespace

EncodingThreadActor::behavior_type make_encoding_thread(
    EncodingThreadActor::stateful_pointer<EncodingThreadState> self, Environment environment,
    std::size_t lane, PromptEncoderActor encoder) {
  follow_rules(self, environment);
  self->state.census = std::make_unique<CensusEntry>(environment->census);
  // Only the encoder's end ends it, by an exit message.
  const auto plain = caf::actor_cast<caf::actor_addr>(encoder);
  return {
      [self, environment, lane, plain](const EncodePrompt& message) {
        const auto is_over = [&] {
          return message.is_abandoned->load(std::memory_order_relaxed) ||
                 self->clock().now() > message.deadline;
        };
        PromptEncoded result = encode(*environment, message, is_over, self->state.buffer);
        if (const auto receiver = caf::actor_cast<PromptEncoderActor>(plain))
          self->send(receiver, TextEncoded{lane, message.sequence, std::move(result)});
      },
  };
}

}  // namespace troupe
