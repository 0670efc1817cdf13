// SPDX-License-Identifier: Apache-2.0
// Has long prompts encoded on threads of their own, so that a megabyte of text
// holds up neither the tokens of others nor their prompts. policy/admitting/encoding_lanes
// decides the order. Each prompt is answered by PromptEncoded, unless it is dropped.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <unordered_map>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/admitting/encoding_lanes.hpp"

namespace troupe {

class PromptEncoderState {
 public:
  using Self = PromptEncoderActor::stateful_pointer<PromptEncoderState>;
  static inline const char* name = "prompt_encoder";

  void initialize(Self self, Environment environment);
  ~PromptEncoderState();

  void take(const EncodePrompt& message, RequestActor requester);
  void drop(SequenceId sequence);
  void take_result(const TextEncoded& message);

 private:
  struct Prompt {
    EncodePrompt message;
    RequestActor requester;
  };
  struct Thread {
    EncodingThreadActor actor;
    bool is_busy = false;
  };

  void feed(std::size_t lane);

  Self self_ = nullptr;
  std::unique_ptr<CensusEntry> census_;
  EncodingLanes lanes_;
  std::array<Thread, EncodingLanes::kNumLanes> threads_;  // by lane
  std::unordered_map<SequenceId, Prompt> prompts_;        // waiting or being encoded
};

PromptEncoderActor::behavior_type make_prompt_encoder(PromptEncoderState::Self self, Environment environment);

}  // namespace troupe
