// SPDX-License-Identifier: Apache-2.0
// What the bodies of all endpoints that generate have in common: one way to read
// them, and the fields that mean the same in each.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "http/field_reader.hpp"
#include "http/openai_api.hpp"

namespace troupe {

struct ParseSettings {
  const ServedModelInfo& model;
  const Limits& limits;
};

// Reads what only one endpoint has; what is wrong is in `fields`.
using ReadOwnFields = std::function<void(FieldReader& fields, ApiRequest& request)>;

// A body as a request. `request` comes with the endpoint's shape and defaults; the
// common fields are read first, then the endpoint's own. What was wrong first is
// the error.
std::variant<ApiRequest, ApiError> parse_generation_request(std::string_view body,
                                                            const ParseSettings& settings, ApiRequest request,
                                                            const ReadOwnFields& read_own_fields);

// The common fields that are about drawing tokens.
void read_sampling_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request);

// Fails on known fields whose value would change the meaning of the answer.
void refuse_unsupported_fields(FieldReader& fields, ResponseShape shape);

}  // namespace troupe
