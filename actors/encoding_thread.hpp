// SPDX-License-Identifier: Apache-2.0
// Encodes the prompts of one lane, one at a time, on a thread of its own; answers
// the prompt encoder. A prompt is given up when its request is, or its deadline
// has passed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"

namespace troupe {

struct EncodingThreadState {
  std::unique_ptr<CensusEntry> census;
  std::string buffer;  // of rendered chats
  static inline const char* name = "encoding_thread";
};

EncodingThreadActor::behavior_type make_encoding_thread(
    EncodingThreadActor::stateful_pointer<EncodingThreadState> self, Environment environment,
    std::size_t lane, PromptEncoderActor encoder);

}  // namespace troupe
