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
#include "policy/admitting/admission.hpp"
#include "store/stored_response.hpp"

namespace troupe {

// Where tokens come from besides texts: the vocabulary, and the tools in front of
// them if the model is shown or told of any. Only tokens of one origin are joined.
std::uint64_t tokens_origin(const ServedModel& model, const ChatPrompt& prompt);

// `added`: the turn's new messages. If the tokens can't be used (another
// origin, other instructions, a template that rewrites answers, an answer with calls), all is
// encoded anew from the texts. conversation: null for the first turn. Throws
// EncodingStopped.
std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const ConversationTurn& turn,
                                                  const ChatPrompt& added, const Conversation* conversation,
                                                  EncodingBudget& budget, const ServingLimits& limits = {});

}  // namespace troupe
