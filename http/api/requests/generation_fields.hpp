// SPDX-License-Identifier: Apache-2.0
// Common to the bodies of all endpoints that generate: one way to read
// them, and the fields that mean the same in each.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

struct ParseSettings {
  const ServedModelInfo& model;
  const Limits& limits;
};

// Reads what only one endpoint has; what is wrong is in `fields`.
using ReadOwnFields = std::function<void(FieldReader& fields, ApiRequest& request)>;

// A body as a request. The common fields are read first, by the model that it
// names, then the endpoint's own. Returns the first error.
std::variant<ApiRequest, ApiError> parse_generation_request(std::string_view body, const ServedModels& models,
                                                            const Limits& limits, ResponseShape shape,
                                                            const ReadOwnFields& read_own_fields);

// The common fields that are about drawing tokens.
void read_sampling_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request);
// The fields that ask how likely the tokens were.
void read_logprob_fields(FieldReader& fields, ApiRequest& request);
// use_beam_search, length_penalty, early_stopping, as vLLM has them, and of n and best_of what they are for a
// search: `n` of the answers of `best_of` beams. After n and best_of.
void read_beams(FieldReader& fields, ApiRequest& request);
// The form that an answer must have: `response_format` (of responses `text.format`, of messages
// `output_config.format`), `grammar` (GBNF) or `regex`; at most one of them. Behind the common fields: some
// of those can't be joined with a form.
void read_output_form(FieldReader& fields, ApiRequest& request);
// The texts that end an answer, in the field `name`: a string or a list.
void read_stop_strings(FieldReader& fields, std::string_view name, const Limits& limits,
                       GenerationRequest& request);

}  // namespace troupe
