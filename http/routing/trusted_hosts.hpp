// SPDX-License-Identifier: Apache-2.0
// Keeps web pages away from what a browser can reach without an API key. Two
// fields that no page can forge tell of it: Host is the page's own name if it
// got here by DNS rebinding, Origin names a page that sends a request to another
// site. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// A Host field without the port and the brackets of an IPv6 address. Empty: the
// field is malformed.
std::string_view host_name_of(std::string_view field);
// localhost, names below .localhost, 127.0.0.0/8, ::1.
bool is_loopback_host(std::string_view name);

// A name or an address as in a Host field, without a port.
bool is_host(std::string_view text);
// scheme://host[:port] or null; or * for any.
bool is_origin(std::string_view text);
// The origin as browsers send it: lower case, without the port that http and https
// have by default. text: is_origin().
std::string normalized_origin(std::string_view text);

class TrustedHosts {
 public:
  // bound: the address listened on. allowed: beside it and the loopback hosts, each
  // is_host(). origins: each is_origin().
  TrustedHosts(std::string_view bound, std::vector<std::string> allowed, std::vector<std::string> origins);

  // Loopback, the bound address and what is allowed. Where all addresses are bound,
  // any address will do: a browser that sends one has connected to it, and no DNS
  // server had a say.
  bool trusts_host(std::string_view field) const;
  // The entry of `origins` that allows it, normalized, or null.
  const std::string* allows_origin(std::string_view origin) const;
  // Origin is the page's that this server itself would serve.
  static bool is_same_origin(std::string_view origin, std::string_view host_field);

 private:
  const std::string bound_;
  const std::vector<std::string> allowed_, origins_;
};

}  // namespace troupe
