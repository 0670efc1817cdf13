// SPDX-License-Identifier: Apache-2.0
// Status line and fields of an answer, as bytes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/api/answers/answer_json.hpp"
#include "http/api/answers/error_response.hpp"

namespace troupe {

// Fields that an answer takes from the request it belongs to.
struct ResponseContext {
  std::string request_id;
  std::string traceresponse = {};  // the trace the request belongs to; empty: unknown
  std::string cors_origin = {};    // empty: no CORS fields
  std::string limit_fields = {};   // whole lines: what the tenant has left
  bool keep_alive = true;
  bool is_http_1_0 = false;
  bool is_head = false;  // fields only
};

struct Reply {
  unsigned status = 200;
  std::string_view content_type = "application/json";
  std::string body = {};
  std::optional<LongAnswer> long_body = {};  // in place of body; sent behind the reply's fields
  // False: long_body goes in chunks (of HTTP/1.0: until the connection ends), because
  // its bytes can't be counted without writing them all.
  bool is_counted = true;
  std::uint32_t retry_after_s = 0;
  std::string_view allow = {};
  std::string cors_headers = {};  // not empty: this answers a preflight
  // The error that `body` tells of, for APIs that tell of it in another shape.
  std::optional<HttpError> error = {};
  std::string more_fields = {};  // whole lines
};

void append_reply(std::string& out, const ResponseContext& context, const Reply& reply);

// The head of a stream of events or lines; its body is chunked unless the client speaks 1.0.
inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kJsonLines = "application/x-ndjson";
void append_stream_head(std::string& out, const ResponseContext& context, std::string_view content_type);

// A client's id if it is 1 to 64 of [A-Za-z0-9_-], longer ones cut; else empty.
std::string checked_request_id(std::string_view id, std::size_t max_bytes);

}  // namespace troupe
