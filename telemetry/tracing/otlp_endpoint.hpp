// SPDX-License-Identifier: Apache-2.0
// Where an OTLP/HTTP collector listens, from the URL people write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

struct OtlpEndpoint {
  std::string url;  // complete
  bool is_https = false;
  std::string host;  // an IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string path;

  // "https://host:443": of the URL what a log may show.
  std::string origin() const;
  // Headers can be read on the way: no TLS, and a host that is none of this machine's
  // loopback addresses or localhost.
  bool is_exposed() const;
};

// "http://localhost:4318", "http://[::1]:4318/custom/path", "https://host". The port
// is 4318 where the URL has none, and 443 for https. default_path: where the URL has
// no path. Throws std::runtime_error that says what was expected and what came, a
// user's name, password and query as ***.
OtlpEndpoint parse_otlp_endpoint(std::string_view url, std::string_view default_path = "/v1/traces");

}  // namespace troupe
