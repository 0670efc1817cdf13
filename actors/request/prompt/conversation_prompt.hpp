// SPDX-License-Identifier: Apache-2.0
// The prompt of a turn that continues a stored conversation: the very tokens
// that were run before, so that their KV is found, and behind them what the
// template puts between an answer and a new turn.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "actors/engine.hpp"
#include "actors/request/prompt/encoded_prompt.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "store/stored_response.hpp"

namespace troupe {

// Where tokens come from besides texts: the vocabulary, and the tools in front of
// them if the model is shown or told of any. Only tokens of one origin are joined.
std::uint64_t tokens_origin(const ServedModel& model, const ChatPrompt& prompt);

// The request is a turn. If the conversation's tokens can't be used (another origin, other instructions, a
// template that rewrites answers, an answer with calls), the whole is encoded as a chat that comes with its
// history: from memory, as far as it is there. conversation: null for the first turn. Throws EncodingStopped.
std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const GenerationRequest& request,
                                                  const Conversation* conversation, const PromptTerms& terms,
                                                  EncodingBudget& budget);

}  // namespace troupe
