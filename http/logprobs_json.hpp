// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of an answer's tokens as JSON, in the three shapes of
// OpenAI's API. What is less likely than exp(-9999) is given as -9999, as there
// and in vLLM: JSON has no infinity. Pure.
#pragma once

#include <span>
#include <string>

#include "actors/generation_request.hpp"
#include "http/openai_api.hpp"

namespace troupe {

// Chats:        {"content":[{"token":…,"logprob":…,"bytes":[…],"top_logprobs":[…]},…],"refusal":null}
// Completions:  {"text_offset":[…],"token_logprobs":[…],"tokens":[…],"top_logprobs":[{…},…]}, where
//               the last tell of the chosen token, too; of a prompt's first token nothing is
//               known: null
// Responses:    the list of a chat's content
void append_logprobs(std::string& out, ResponseShape shape, std::span<const AnswerToken> tokens);

}  // namespace troupe
