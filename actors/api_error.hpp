// SPDX-License-Identifier: Apache-2.0
// What a client is told when its request can't be served: one value, mapped to
// OpenAI's error object and a status code in one place (http/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

enum class ApiErrorKind : std::uint8_t {
  kInvalidRequest,   // 400
  kContextTooLong,   // 400, code context_length_exceeded
  kModelNotFound,    // 404
  kOverloaded,       // 429, with Retry-After
  kUnavailable,      // 503: loading, draining, or the engine failed
  kInternal,         // 500
};

struct ApiError {
  ApiErrorKind kind = ApiErrorKind::kInternal;
  std::string message;  // what was expected and what came; safe to show
  std::optional<std::string> field = std::nullopt;  // the request field at fault ("param")
};

}  // namespace troupe
