// SPDX-License-Identifier: Apache-2.0
// Known fields whose value would change the meaning of the answer and is not
// supported: they fail by name.
#pragma once

#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

void refuse_unsupported_fields(FieldReader& fields, ResponseShape shape);
// For a completion with answers that are searched for.
void refuse_unsupported_beam_fields(FieldReader& fields);
// The object `options` of Ollama's.
void refuse_unsupported_ollama_options(FieldReader& options);
void refuse_unsupported_embedding_fields(FieldReader& fields);
// For requests for classes, scores and ranks.
void refuse_unsupported_score_fields(FieldReader& fields);
// For a chat whose tokens are wanted.
void refuse_unsupported_template_fields(FieldReader& fields);

}  // namespace troupe
