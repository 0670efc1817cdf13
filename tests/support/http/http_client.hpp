// SPDX-License-Identifier: Apache-2.0
// A small blocking HTTP client for tests against a running server: one request
// a connection, answers whole or as server-sent events. It is not
// telemetry/http/http_client.hpp: header lines go out as a test writes them, also such as no client
// library would send, come back as they were sent, and an answer may be left at any byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

struct HttpAnswer {
  unsigned status = 0;
  std::string headers;  // as sent, without the status line
  std::string body;     // chunks joined
};

// Throws std::runtime_error if the connection fails or the answer is malformed.
HttpAnswer http_get(std::uint16_t port, std::string_view target);
// more_headers: whole lines, with their ends.
HttpAnswer http_post(std::uint16_t port, std::string_view target, std::string_view json,
                     std::string_view more_headers = "");

// Any method, without a body.
HttpAnswer http_send(std::uint16_t port, std::string_view method, std::string_view target,
                     std::string_view more_headers = "");

// The `data:` payloads of an event stream, comments left out.
std::vector<std::string> sse_payloads(std::string_view body);

// Posts, reads the stream, and closes the connection once `stop` says so of the
// bytes received so far.
void http_post_and_leave(std::uint16_t port, std::string_view target, std::string_view json,
                         const std::function<bool(std::string_view)>& stop,
                         std::string_view more_headers = "");

}  // namespace troupe::test
