// SPDX-License-Identifier: Apache-2.0
// A request's prompt to token ids: template, tokenizer, special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "actors/encoded_prompt.hpp"
#include "actors/engine.hpp"
#include "store/stored_response.hpp"

namespace troupe {

// conversation: what the request's turn continues, or null. Never throws on
// account of the request.
std::variant<EncodedPrompt, ApiError> encode_prompt(const ServedModel& model,
                                                    const GenerationRequest& request,
                                                    const Conversation* conversation = nullptr);

// Messages through the model's template.
std::variant<std::vector<std::int32_t>, ApiError> encode_messages(const ServedModel& model,
                                                                  const ChatPrompt& prompt);
// The template's input, so far as it does not depend on the messages.
ChatTemplateInput template_input(const ServedModel& model);

// Bytes of text to be encoded, as a measure of the work.
std::size_t prompt_text_bytes(const GenerationRequest& request, const Conversation* conversation = nullptr);

}  // namespace troupe
