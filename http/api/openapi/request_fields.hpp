// SPDX-License-Identifier: Apache-2.0
// Fields that each endpoint's body may have, with what may stand in them: the table that
// the OpenAPI document is made of. The readers (http/api/requests/) check fields in code
// of their own; tests/http/api/openapi_test.cpp asks them about each row, and looks for
// fields that they read and no row names. Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "http/routing/router.hpp"

namespace troupe {

// null stands for absent in each.
struct RequestField {
  std::string_view name;
  std::string_view schema;  // JSON Schema
  bool is_required = false;
};

struct RequestBody {
  Route route = Route::kUnknown;
  std::string_view name;  // of its schema: "ChatCompletionRequest"
  std::vector<std::span<const RequestField>> fields;
  std::string_view example;  // a body that is accepted by a model of the right kind
};

// One for each endpoint of the API's own door that takes a body.
const std::vector<RequestBody>& request_bodies();

}  // namespace troupe
