// SPDX-License-Identifier: Apache-2.0
// Completions with answers that are searched for, as vLLM's fields ask for it.
#pragma once

#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

// use_beam_search, length_penalty, early_stopping, and of n and best_of what they are for a search: `n` of
// the answers of `best_of` beams. After n and best_of.
void read_beams(FieldReader& fields, ApiRequest& request);

}  // namespace troupe
