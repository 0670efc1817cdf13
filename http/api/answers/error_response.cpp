// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/error_response.hpp"

#include <chrono>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kRetrySoon = 1;
constexpr std::uint32_t kRetryElsewhere = 5;  // the next process may be up by then

void append_nullable(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

}  // namespace

HttpError http_error(unsigned status, std::string message) {
  HttpError error{.status = status, .message = std::move(message)};
  if (status < 500) error.type = "invalid_request_error";
  switch (status) {
    case 401:
      error.type = "authentication_error";
      error.code = "invalid_api_key";
      break;
    case 403: error.code = "origin_not_allowed"; break;
    case 404: error.code = "not_found"; break;
    case 405: error.code = "method_not_allowed"; break;
    case 408: error.code = "request_timeout"; break;
    case 413: error.code = "request_too_large"; break;
    case 415: error.code = "unsupported_media_type"; break;
    case 421: error.code = "host_not_allowed"; break;
    case 429:
      error.type = "rate_limit_error";
      error.code = "overloaded";
      error.retry_after_s = kRetrySoon;
      break;
    case 501: error.code = "not_implemented"; break;
    case 503:
      error.code = "unavailable";
      error.retry_after_s = kRetryElsewhere;
      break;
    default: break;
  }
  return error;
}

HttpError no_room_error() {
  HttpError error = http_error(503, "the server has as many connections as it can take");
  error.retry_after_s = kRetrySoon;
  error.close = true;
  return error;
}

HttpError needs_tls_error() {
  HttpError error = http_error(400, "this port speaks TLS: call it by https://");
  error.close = true;
  return error;
}

HttpError to_http_error(const ApiError& error) {
  HttpError result = http_error(http_status(error.kind), error.message);
  switch (error.kind) {
    case ApiErrorKind::kContextTooLong: result.code = "context_length_exceeded"; break;
    case ApiErrorKind::kModelNotFound: result.code = "model_not_found"; break;
    case ApiErrorKind::kResponseNotFound:
    case ApiErrorKind::kPreviousResponseNotFound:
    case ApiErrorKind::kStoreFull:
    case ApiErrorKind::kStoreFailed: result.code = name_of(error.kind); break;
    case ApiErrorKind::kInternal: result.code = "internal_error"; break;
    case ApiErrorKind::kRateLimited: result.code = name_of(error.kind); break;
    case ApiErrorKind::kInvalidRequest:
    case ApiErrorKind::kOverloaded:
    case ApiErrorKind::kWaitedTooLong:
    case ApiErrorKind::kDisplaced:
    case ApiErrorKind::kUnavailable: break;
  }
  if (error.retry_after.count() > 0)
    result.retry_after_s =
        static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::seconds>(error.retry_after).count());
  result.field = error.field.value_or("");
  return result;
}

std::string error_json(const HttpError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, error.message);
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  append_nullable(out, error.field);
  out += ",\"code\":";
  append_nullable(out, error.code);
  out += "}}";
  return out;
}

}  // namespace troupe
