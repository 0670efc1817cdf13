// SPDX-License-Identifier: Apache-2.0
// Everything that can go wrong, as a client sees it: OpenAI's error object, the
// status code, and when to come back. The one place where errors become HTTP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/request/api_error.hpp"

namespace troupe {

struct HttpError {
  unsigned status = 500;
  std::string_view type = "server_error";  // of OpenAI's four
  std::string_view code = {};              // empty: null
  std::string message = {};
  std::string field = {};           // empty: null
  std::uint32_t retry_after_s = 0;  // 0: no Retry-After
  bool close = false;               // the connection can't be used further
};

// An error of the protocol, before any API is reached.
HttpError http_error(unsigned status, std::string message);
// The answer to anything else on a connection that is only there for probes.
HttpError no_room_error();
// The answer to plain HTTP where TLS is spoken.
HttpError needs_tls_error();
HttpError to_http_error(const ApiError& error);

// {"error":{"message":…,"type":…,"param":…,"code":…}}
std::string error_json(const HttpError& error);

}  // namespace troupe
