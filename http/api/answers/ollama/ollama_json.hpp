// SPDX-License-Identifier: Apache-2.0
// Answers of Ollama's API as JSON: the same members in the lines of a stream and in an
// answer that is sent whole. Times are nanoseconds. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/request/generation_request.hpp"
#include "http/api/answers/answer_json.hpp"
#include "http/api/answers/error_response.hpp"
#include "http/api/answers/response_json.hpp"

namespace troupe {

// A part of an answer, or all of it.
struct OllamaPortion {
  std::string_view text = {}, reasoning = {};
  std::span<const CallDelta> calls = {};     // whole ones
  std::span<const AnswerToken> tokens = {};  // if log-probabilities were asked for
};

// {"model":…,"created_at":…
std::string ollama_head(const ResponseIdentity& identity);
// ,"message":{…} of a chat, else ,"response":…; and ,"logprobs":[…]
void append_ollama_portion(AnswerJson& json, ResponseShape shape, const OllamaPortion& portion);
// ,"done":true,"done_reason":"stop",… and the counts and times. Tokens of the prompt that a cache had
// count as evaluated; the model's own load took no time, since it was loaded.
void append_ollama_end(std::string& out, const Finished& finished);

// The answer to a request without a prompt: the model is loaded.
std::string ollama_loaded_json(const ResponseIdentity& identity);

// {"model":…,"embeddings":[…],…}. duration: since the request came.
void append_ollama_vectors(AnswerJson& json, std::string_view model, const EmbeddingView& view,
                           std::uint32_t prompt_tokens, std::chrono::nanoseconds duration);
// {"embedding":[…]}, the first vector; an empty view gives an empty list.
void append_ollama_vector(std::string& out, const EmbeddingView& view);

// {"error":"…"}
std::string ollama_error_json(const HttpError& error);

}  // namespace troupe
