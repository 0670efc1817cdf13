// SPDX-License-Identifier: Apache-2.0
// The prompt of a turn that continues a stored conversation: the very tokens
// that were run before, so that their KV is found, and behind them what the
// template puts between an answer and a new turn.
#pragma once

#include <variant>

#include "actors/encoded_prompt.hpp"
#include "actors/engine.hpp"
#include "store/stored_response.hpp"

namespace troupe {

// `added`: the turn's new messages. If the tokens can't be used (another
// vocabulary, other instructions, a template that rewrites answers), all is
// encoded anew from the texts. conversation: null for the first turn.
std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const ConversationTurn& turn,
                                                  const ChatPrompt& added, const Conversation* conversation);

}  // namespace troupe
