// SPDX-License-Identifier: Apache-2.0
// The fields of a request that say which form its answer must have: `response_format` (of
// responses `text.format`, of messages `output_config.format`), `grammar` (GBNF) or `regex`;
// at most one of them.
#pragma once

#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {

// Behind the common fields: some of those can't be joined with a form.
void read_output_form(FieldReader& fields, ApiRequest& request);

}  // namespace troupe
