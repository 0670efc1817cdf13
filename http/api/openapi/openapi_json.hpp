// SPDX-License-Identifier: Apache-2.0
// The OpenAPI 3.1 document of the API, as /openapi.json gives it: paths and methods are
// the router's, fields of requests those of request_fields.hpp. Pure.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

// version: of the program.
std::string openapi_json(std::string_view version);

}  // namespace troupe
