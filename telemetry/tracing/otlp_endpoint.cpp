// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include <boost/asio/ip/address.hpp>

namespace troupe {
namespace {

constexpr std::uint16_t kOtlpPort = 4318;
constexpr std::uint16_t kHttpsPort = 443;  // where services listen; a collector's URL has its port

// Keys are in the user's part and in the query, wherever a / or a ? stands in them.
std::string without_secrets(std::string_view url) {
  const std::size_t at = url.rfind('@');
  const std::size_t query = std::min(url.find_first_of("?#"), url.size());
  const bool has_user = at != std::string_view::npos;
  if (has_user && query < at) return "***";  // either may be the secret
  const std::size_t begin = has_user ? at : 0;
  std::string shown = has_user ? "***" : "";
  shown += url.substr(begin, query - begin);
  if (query < url.size()) shown.append(1, url[query]).append("***");
  return shown;
}

[[noreturn]] void refuse(std::string_view url, std::string_view why) {
  throw std::runtime_error("expected a collector's URL such as http://localhost:4318, got '" +
                           without_secrets(url) + "': " + std::string(why));
}

bool is_visible(char c) { return c > 0x20 && c < 0x7F; }

std::uint16_t parse_port(std::string_view text, std::string_view url) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || port == 0 || port > 65535) refuse(url, "the port must be 1 to 65535");
  return static_cast<std::uint16_t>(port);
}

}  // namespace

std::string OtlpEndpoint::origin() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_https ? "https://" : "http://") + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool OtlpEndpoint::is_exposed() const {
  boost::system::error_code is_name;
  const auto address = boost::asio::ip::make_address(host, is_name);
  const bool is_local = is_name ? host == "localhost" : address.is_loopback();
  return !is_https && !is_local;
}

OtlpEndpoint parse_otlp_endpoint(std::string_view url, std::string_view default_path) {
  OtlpEndpoint endpoint;
  endpoint.port = kOtlpPort;
  endpoint.path = default_path;
  std::string_view rest = url;
  if (!std::all_of(url.begin(), url.end(), is_visible)) refuse(url, "it has blanks or controls in it");
  if (rest.starts_with("https://")) {
    endpoint.is_https = true;
    endpoint.port = kHttpsPort;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    refuse(url, "it must begin with http:// or https://");
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  const std::string_view path = rest.substr(slash);
  if (path.find_first_of("?#") != std::string_view::npos) refuse(url, "a path has no ? and no #");
  if (path.size() > 1) endpoint.path = path;
  if (authority.find('@') != std::string_view::npos) refuse(url, "user names are not supported");
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) refuse(url, "a ] is missing");
  const std::size_t colon = authority.find(':', bracket);
  if (bracket > 0 && std::min(colon, authority.size()) != bracket + 1)
    refuse(url, "a port or nothing must follow the ]");
  if (colon != std::string_view::npos) {
    endpoint.port = parse_port(authority.substr(colon + 1), url);
    authority = authority.substr(0, colon);
  }
  endpoint.host = bracket > 0 ? authority.substr(1, bracket - 1) : authority;
  if (endpoint.host.empty()) refuse(url, "the host is missing");
  if (endpoint.host.find_first_of("?#[]") != std::string::npos) refuse(url, "a host has no ?, #, [ or ]");
  endpoint.url = endpoint.origin() + endpoint.path;
  return endpoint;
}

}  // namespace troupe
