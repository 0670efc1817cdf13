// SPDX-License-Identifier: Apache-2.0
// What clients of OpenAI's API send, turned into requests for the engine. Pure:
// text in, values out. Every field is checked for type and range and named when
// it is wrong. Unknown fields are ignored; known ones that would change the
// meaning of the answer and are not supported are refused by name.
#pragma once

#include <string_view>
#include <variant>

#include "actors/api_error.hpp"
#include "actors/generation_request.hpp"
#include "http/limits.hpp"
#include "http/served_model_info.hpp"

namespace troupe {

enum class ResponseShape : std::uint8_t { kChat, kCompletion, kResponse };

struct ApiRequest {
  GenerationRequest generation;  // without its id
  ResponseShape shape = ResponseShape::kChat;
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage and no choices
  bool continuous_usage_stats = false;  // the usage so far in every chunk
  bool wants_logprobs = false;          // generation.sampling says how many
};

std::variant<ApiRequest, ApiError> parse_chat_request(std::string_view body, const ServedModelInfo& model,
                                                      const Limits& limits);
std::variant<ApiRequest, ApiError> parse_completion_request(std::string_view body,
                                                            const ServedModelInfo& model,
                                                            const Limits& limits);
// A turn (GenerationRequest::turn), without the time it was created.
std::variant<ApiRequest, ApiError> parse_responses_request(std::string_view body,
                                                           const ServedModelInfo& model,
                                                           const Limits& limits);

}  // namespace troupe
