// SPDX-License-Identifier: Apache-2.0
// Fields of OpenAI's and vLLM's APIs that say whether a model is to reason before it
// answers. They are wishes: templates that can't be told do as they do.
#pragma once

#include "actors/request/generation_request.hpp"
#include "http/api/requests/field_reader.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

// `reasoning_effort` of chats: "none", or a level; other words have no effect.
void read_reasoning_effort(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt);
// The same of responses: `reasoning.effort`.
void read_reasoning(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt);
// `chat_template_kwargs`: enable_thinking or thinking, and nothing else.
void read_template_variables(FieldReader& fields, ChatPrompt& prompt);

}  // namespace troupe
