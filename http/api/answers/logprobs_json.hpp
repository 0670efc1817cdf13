// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of an answer's tokens as JSON, in the three shapes of
// OpenAI's API. Log-probabilities below -9999 are given as -9999, as there
// and in vLLM: JSON has no infinity. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/request/generation_request.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

// A list with one element a token.
enum class LogprobsList : std::uint8_t {
  kContent,
  kTextOffsets,
  kTokenLogprobs,
  kTokens,
  kTopLogprobs,
  kPromptTokens
};

// Chats:        {"content":[{"token":…,"logprob":…,"bytes":[…],"top_logprobs":[…]},…],"refusal":null}
// Completions:  {"text_offset":[…],"token_logprobs":[…],"tokens":[…],"top_logprobs":[{…},…]}, where
//               the last tell of the chosen token, too; of a prompt's first token nothing is
//               known: null
// Responses:    the list of a chat's content; so Ollama's
void append_logprobs(std::string& out, ResponseShape shape, std::span<const AnswerToken> tokens);

// Prompts, as vLLM has them: [null,{"ID":{"logprob":…,"rank":…,"decoded_token":…},…},…], the
// prompt's own token first, then its alternatives but for that one, best first. The rank of a
// token that is not among the alternatives is not known: null.
void append_prompt_logprobs(std::string& out, std::span<const AnswerToken> tokens);

// The same in parts, for lists that are too long to be written at once: each
// list between brackets, its elements joined by commas.
struct LogprobsLayout {
  struct Entry {
    std::string_view before;
    LogprobsList list;
  };
  std::span<const Entry> lists;
  std::string_view end;
};
LogprobsLayout logprobs_layout(ResponseShape shape);
void append_logprobs_element(std::string& out, LogprobsList list, const AnswerToken& token);

}  // namespace troupe
