// SPDX-License-Identifier: Apache-2.0
// Where a server is: "http://127.0.0.1:8000" or "https://host:9000/some/prefix".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::loadgen {

// The certificates that https trusts.
struct ServerTrust {
  std::string certificate_file = {};  // PEM; empty: the system's
  bool is_insecure = false;           // any certificate of any name will do
};

struct ServerAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string prefix;  // of all paths, without a slash at its end; a /v1 there is dropped
  bool is_https = false;
  ServerTrust trust = {};

  std::string url() const;
  std::string host_field() const;  // of HTTP; with the port, unless it is the scheme's
};

// Throws std::runtime_error: neither http:// nor https://, no host, a port that is none.
ServerAddress parse_server_address(std::string_view url);

}  // namespace troupe::loadgen
