// SPDX-License-Identifier: Apache-2.0
// A request's prompt to token ids: template, tokenizer, special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "actors/engine.hpp"

namespace troupe {

// Never throws on account of the request.
std::variant<std::vector<std::int32_t>, ApiError> encode_prompt(const ServedModel& model,
                                                                const GenerationRequest& request);

// Bytes of text to be encoded, as a measure of the work.
std::size_t prompt_text_bytes(const GenerationRequest& request);

}  // namespace troupe
