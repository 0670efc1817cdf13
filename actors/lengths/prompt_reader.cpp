// SPDX-License-Identifier: Apache-2.0
#include "actors/lengths/prompt_reader.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/request/prompt/prompt_end.hpp"

namespace troupe {
namespace {

// Tokens, as many as small encoders take: the end of the last message, which tells most. A longer pass would
// keep batches of others waiting.
constexpr std::uint32_t kLongestReading = 512;

// Requests count from 1, and none comes so far.
constexpr SequenceId kInputMark = SequenceId{1} << 63U;

SequenceId input_for(SequenceId sequence) { return sequence | kInputMark; }

}  // namespace

std::optional<SequenceId> sequence_read_by(SequenceId input) {
  if ((input & kInputMark) == 0) return std::nullopt;
  return input & ~kInputMark;
}

PromptReaderActor::behavior_type make_prompt_reader(PromptReaderState::Self self, Environment environment,
                                                    ModelIndex encoder, SchedulerActor scheduler,
                                                    PredictorActor predictor) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), encoder, std::move(scheduler), std::move(predictor));
  return {
      [self](const ReadPrompt& message) { self->state.read(message); },
      [self](const DropPrompt& message) { self->state.drop(message.sequence); },
      [self](const Encoded& encoded) { self->state.take_vector(encoded); },
      [self](const RequestFailed& failed) { self->state.fail(failed.sequence); },
      [](const BeginRequest&) {},
      [](const CancelRequest&) {},
      [](const ResumeRequest&) {},
      [](const PromptEncoded&) {},
      [](const ConversationRead&) {},
      [](const ResponseSaved&) {},
      [](const RequestJournaled&) {},
      [](const JournalEnded&) {},
      [](const Admitted&) {},
      [](const SequenceStarted&) {},
      [](const SequenceStopped&) {},  // it is encoded again elsewhere
      [](const ReservationChanged&) {},
      [](const NewToken&) {},
      [](const ScorePrompt&) {},
  };
}

void PromptReaderState::initialize(Self self, Environment environment, ModelIndex encoder,
                                   SchedulerActor scheduler, PredictorActor predictor) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  encoder_ = encoder;
  scheduler_ = std::move(scheduler);
  predictor_ = caf::actor_cast<caf::actor_addr>(predictor);
}

void PromptReaderState::read(const ReadPrompt& message) {
  const AdmissionTicket& prompt = *message.ticket;
  const Reading reading{.sequence = prompt.sequence, .model = prompt.model};
  auto tokens = input_of(prompt);
  if (tokens.empty()) return answer(reading, nullptr);
  auto ticket = std::make_shared<AdmissionTicket>();
  ticket->sequence = input_for(prompt.sequence);
  ticket->model = encoder_;
  ticket->prompt = std::move(tokens);
  ticket->flow = prompt.flow;
  ticket->has_begun = true;
  readings_.insert_or_assign(ticket->sequence, reading);
  self_->send(scheduler_, Admit{std::move(ticket)});
}

// Empty: there is nothing to be read.
std::vector<std::int32_t> PromptReaderState::input_of(const AdmissionTicket& ticket) const {
  const auto longest =
      std::min(environment_->board->serving_limits(encoder_).context_length, kLongestReading);
  try {
    return encode_prompt_end(*environment_->models[ticket.model].served.tokenizer, ticket.prompt,
                             *environment_->models[encoder_].served.tokenizer, longest);
  } catch (const std::exception&) {  // a tokenizer refuses the text
    return {};
  }
}

void PromptReaderState::drop(SequenceId sequence) {
  const SequenceId input = input_for(sequence);
  if (readings_.erase(input) == 0) return;
  environment_->metrics.prompts_read_skipped.add();
  self_->send(scheduler_, StopSequence{.sequence = input});
}

void PromptReaderState::take_vector(const Encoded& encoded) {
  const auto reading = readings_.extract(encoded.sequence);
  if (reading) answer(reading.mapped(), std::make_shared<const std::vector<float>>(encoded.vector));
}

void PromptReaderState::fail(SequenceId input) {
  if (const auto reading = readings_.extract(input)) answer(reading.mapped(), nullptr);
}

void PromptReaderState::answer(const Reading& reading, std::shared_ptr<const std::vector<float>> vector) {
  const Metrics& metrics = environment_->metrics;
  (vector ? metrics.prompts_read_done : metrics.prompts_read_failed).add();
  const auto predictor = caf::actor_cast<PredictorActor>(predictor_);
  if (!predictor) return;
  self_->send(predictor,
              PromptRead{.sequence = reading.sequence, .model = reading.model, .vector = std::move(vector)});
}

}  // namespace troupe
