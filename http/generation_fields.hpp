// SPDX-License-Identifier: Apache-2.0
// The fields that chat and text completions have in common.
#pragma once

#include "http/field_reader.hpp"
#include "http/openai_api.hpp"

namespace troupe {

struct ParseSettings {
  const ServedModelInfo& model;
  const Limits& limits;
};

// Model name, sampling, lengths, stops, streaming; what is wrong is in `fields`.
void read_generation_fields(FieldReader& fields, const ParseSettings& settings,
                            ApiRequest& request);

// The part of it that is about drawing tokens.
void read_sampling_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request);

// Fails on known fields whose value would change the meaning of the answer.
void refuse_unsupported_fields(FieldReader& fields, ResponseShape shape);

}  // namespace troupe
