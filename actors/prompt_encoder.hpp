// SPDX-License-Identifier: Apache-2.0
// Encodes long prompts on a thread of its own, so that a megabyte of text does
// not hold up the tokens of others.
#pragma once

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"

namespace troupe {

struct PromptEncoderState {
  std::unique_ptr<CensusEntry> census;
  static inline const char* name = "prompt_encoder";
};

PromptEncoderActor::behavior_type make_prompt_encoder(
    PromptEncoderActor::stateful_pointer<PromptEncoderState> self, Environment environment);

}  // namespace troupe
