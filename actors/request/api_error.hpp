// SPDX-License-Identifier: Apache-2.0
// The error that a client gets when its request can't be served: one value, mapped to
// OpenAI's error object and a status code in one place (http/).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

enum class ApiErrorKind : std::uint8_t {
  kInvalidRequest,
  kContextTooLong,  // has a code of its own
  kModelNotFound,
  kResponseNotFound,          // the caller has none by that id
  kPreviousResponseNotFound,  // … to continue
  kStoreFull,
  kStoreFailed,
  kOverloaded,     // too many wait already; these four come with Retry-After
  kWaitedTooLong,  // it waited, and its turn did not come in time
  kDisplaced,      // it waited, and made room for a flow that has fewer requests
  kRateLimited,    // a limit of its tenant
  kUnavailable,    // loading, draining, or the engine failed
  kInternal,
};

constexpr unsigned http_status(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kContextTooLong:
    case ApiErrorKind::kPreviousResponseNotFound: return 400;  // as OpenAI: the path is there
    case ApiErrorKind::kModelNotFound:
    case ApiErrorKind::kResponseNotFound: return 404;
    case ApiErrorKind::kStoreFull: return 507;
    case ApiErrorKind::kOverloaded:
    case ApiErrorKind::kWaitedTooLong:
    case ApiErrorKind::kDisplaced:
    case ApiErrorKind::kRateLimited: return 429;
    case ApiErrorKind::kUnavailable: return 503;
    case ApiErrorKind::kStoreFailed:
    case ApiErrorKind::kInternal: break;
  }
  return 500;
}

// For logs and traces.
constexpr std::string_view name_of(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kInvalidRequest: return "invalid_request";
    case ApiErrorKind::kContextTooLong: return "context_length_exceeded";
    case ApiErrorKind::kModelNotFound: return "model_not_found";
    case ApiErrorKind::kResponseNotFound: return "response_not_found";
    case ApiErrorKind::kPreviousResponseNotFound: return "previous_response_not_found";
    case ApiErrorKind::kStoreFull: return "store_full";
    case ApiErrorKind::kStoreFailed: return "store_failed";
    case ApiErrorKind::kOverloaded:
    case ApiErrorKind::kWaitedTooLong:
    case ApiErrorKind::kDisplaced: return "overloaded";
    case ApiErrorKind::kRateLimited: return "rate_limit_exceeded";
    case ApiErrorKind::kUnavailable: return "unavailable";
    case ApiErrorKind::kInternal: break;
  }
  return "internal_error";
}

// The request can be submitted again, by this process or the next one: the server lacks
// room, its store fails, or it ends.
constexpr bool may_be_asked_again(ApiErrorKind kind) {
  return kind == ApiErrorKind::kOverloaded || kind == ApiErrorKind::kWaitedTooLong ||
         kind == ApiErrorKind::kDisplaced || kind == ApiErrorKind::kRateLimited ||
         kind == ApiErrorKind::kUnavailable || kind == ApiErrorKind::kStoreFull ||
         kind == ApiErrorKind::kStoreFailed;
}

struct ApiError {
  ApiErrorKind kind = ApiErrorKind::kInternal;
  std::string message;                              // the expected and the actual; safe to show
  std::optional<std::string> field = std::nullopt;  // the request field at fault ("param")
  // When to try again; 0: not known.
  std::chrono::nanoseconds retry_after{0};
};

}  // namespace troupe
