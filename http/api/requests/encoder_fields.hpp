// SPDX-License-Identifier: Apache-2.0
// Fields that requests to encoders have in common: inputs, and their ends when they are
// too long.
#pragma once

#include <string>
#include <string_view>

#include "actors/request/embedding_request.hpp"
#include "http/api/requests/field_reader.hpp"
#include "http/api/served_model_info.hpp"
#include "http/limits.hpp"

namespace troupe {

// `input`: a text, token ids, or a list of them. prompt: goes in front of each text.
void read_input(FieldReader& fields, const Limits& limits, std::string_view prompt,
                EmbeddingRequest& request);

// True: inputs that are too long lose their end. `truncate`, or vLLM's
// `truncate_prompt_tokens`, of which only the model's own limit can be kept, since texts
// are not tokenized here.
bool read_truncation(FieldReader& fields, const ServedModelInfo& model);

}  // namespace troupe
