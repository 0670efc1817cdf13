// SPDX-License-Identifier: Apache-2.0
// Answers to /tokenize and /detokenize, and of requests that ask how many tokens
// they would have, as JSON. Pure.
#pragma once

#include <string>

#include "actors/request/generation_request.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

// kTokens: {"count":…,"max_model_len":…,"tokens":[…],"token_strs":[…] or null}
// kText:   {"prompt":…}
// kCount:  {"input_tokens":…}
std::string token_json(const ApiTokenRequest& request, const ServedModelInfo& model,
                       const EncodedText& answer);

}  // namespace troupe
