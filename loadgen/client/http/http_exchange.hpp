// SPDX-License-Identifier: Apache-2.0
// One HTTP request to the server under load and its answer, blocking, on a connection of
// its own: for health checks, model lists and metrics. Any thread.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

#include "loadgen/client/server/server_address.hpp"
#include "telemetry/http/http_client.hpp"

namespace troupe::loadgen {

// No connection, or no answer in time. The text names the URL and the cause.
class ServerUnreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct HttpQuestion {
  std::string_view path;     // "/health"; the address's prefix comes before it
  std::string_view api_key;  // empty: none
  std::string_view json;     // sent with POST; empty: GET
  std::chrono::milliseconds timeout{10'000};
};

// Throws ServerUnreachable; also if what comes is not HTTP, or over 16 MiB.
HttpReply http_exchange(const ServerAddress& server, const HttpQuestion& question);

}  // namespace troupe::loadgen
