// SPDX-License-Identifier: Apache-2.0
#include "actors/prompt_encoder.hpp"

#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/encoding_thread.hpp"

namespace troupe {

PromptEncoderActor::behavior_type make_prompt_encoder(PromptEncoderState::Self self,
                                                      Environment environment) {
  follow_rules(self, environment);
  // Without one of its threads it is of no use; the supervisor hears of its end.
  self->set_down_handler(
      [](caf::scheduled_actor* actor, caf::down_msg& message) { actor->quit(message.reason); });
  self->state.initialize(self, std::move(environment));
  return {
      [self](const EncodePrompt& message) {
        self->state.take(message, caf::actor_cast<RequestActor>(self->current_sender()));
      },
      [self](const DropPrompt& message) { self->state.drop(message.sequence); },
      [self](const TextEncoded& message) { self->state.take_result(message); },
  };
}

void PromptEncoderState::initialize(Self self, Environment environment) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  for (std::size_t lane = 0; lane < threads_.size(); ++lane) {
    threads_[lane].actor = spawn_on_thread(self->system(), environment->has_threads, make_encoding_thread,
                                           environment, lane, caf::actor_cast<PromptEncoderActor>(self));
    self->monitor(threads_[lane].actor);
  }
}

PromptEncoderState::~PromptEncoderState() {
  for (const Thread& thread : threads_) send_stop(thread.actor);
}

void PromptEncoderState::take(const EncodePrompt& message, RequestActor requester) {
  lanes_.add({.id = message.sequence, .num_bytes = message.num_bytes, .tenant = message.request->flow});
  prompts_.emplace(message.sequence, Prompt{message, std::move(requester)});
  feed(EncodingLanes::lane_of(message.num_bytes));
}

// One that is being encoded notices by itself.
void PromptEncoderState::drop(SequenceId sequence) {
  lanes_.remove(sequence);
  prompts_.erase(sequence);
}

void PromptEncoderState::take_result(const TextEncoded& message) {
  if (const auto prompt = prompts_.extract(message.sequence)) {
    PromptEncoded result = message.result;
    result.sequence = message.sequence;
    self_->send(prompt.mapped().requester, std::move(result));
  }
  threads_.at(message.lane).is_busy = false;
  feed(message.lane);
}

void PromptEncoderState::feed(std::size_t lane) {
  Thread& thread = threads_.at(lane);
  if (thread.is_busy) return;
  const auto next = lanes_.take(lane);
  if (!next) return;
  thread.is_busy = true;
  self_->send(thread.actor, prompts_.at(*next).message);
}

}  // namespace troupe
