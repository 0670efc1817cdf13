// SPDX-License-Identifier: Apache-2.0
// Has the prompts of waiting sequences read by a model that encodes, for the predictor: the end of a prompt
// becomes an input of that model, in the flow of the sequence's own tenant, like an input of an embedding
// request that has begun, so it takes no other one's place in the queue. Each ReadPrompt is answered by
// PromptRead once, unless it is dropped. Nothing waits for it.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"

namespace troupe {

// The sequence that an input of this number reads the prompt of; nullopt: the number is a request's own.
std::optional<SequenceId> sequence_read_by(SequenceId input);

class PromptReaderState {
 public:
  using Self = PromptReaderActor::stateful_pointer<PromptReaderState>;
  static inline const char* name = "prompt_reader";

  void initialize(Self self, Environment environment, ModelIndex encoder, SchedulerActor scheduler,
                  PredictorActor predictor);

  void read(const ReadPrompt& message);
  void drop(SequenceId sequence);
  void take_vector(const Encoded& encoded);
  void fail(SequenceId input);

 private:
  struct Reading {  // of a sequence's prompt
    SequenceId sequence = 0;
    ModelIndex model = 0;
  };

  std::vector<std::int32_t> input_of(const AdmissionTicket& ticket) const;
  void answer(const Reading& reading, std::shared_ptr<const std::vector<float>> vector);

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  ModelIndex encoder_ = 0;
  SchedulerActor scheduler_;
  caf::actor_addr predictor_;                         // which owns it
  std::unordered_map<SequenceId, Reading> readings_;  // by the input's own sequence
};

PromptReaderActor::behavior_type make_prompt_reader(PromptReaderState::Self self, Environment environment,
                                                    ModelIndex encoder, SchedulerActor scheduler,
                                                    PredictorActor predictor);

}  // namespace troupe
