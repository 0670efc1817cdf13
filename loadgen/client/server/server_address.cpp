// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_address.hpp"

#include <charconv>
#include <stdexcept>

namespace troupe::loadgen {
namespace {

[[noreturn]] void refuse(std::string_view url, const std::string& what) {
  throw std::runtime_error("expected a URL like http://127.0.0.1:8000, got '" + std::string(url) +
                           "': " + what);
}

std::uint16_t parse_port(std::string_view url, std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    refuse(url, "'" + std::string(text) + "' is no port");
  return port;
}

std::string prefix_of(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);  // as an OpenAI base URL has it
  return std::string(path);
}

std::uint16_t usual_port(bool is_https) { return is_https ? 443 : 80; }

}  // namespace

std::string ServerAddress::url() const { return (is_https ? "https://" : "http://") + host_field() + prefix; }

std::string ServerAddress::host_field() const {
  const auto name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == usual_port(is_https) ? name : name + ":" + std::to_string(port);
}

ServerAddress parse_server_address(std::string_view url) {
  constexpr std::string_view kPlain = "http://", kEncrypted = "https://";
  const bool is_https = url.starts_with(kEncrypted);
  if (!is_https && !url.starts_with(kPlain)) refuse(url, "it does not begin with http:// or https://");
  for (const char c : url)
    if (c <= ' ' || c > '~') refuse(url, "it holds spaces or control characters");
  auto rest = url.substr(is_https ? kEncrypted.size() : kPlain.size());
  ServerAddress address{.host = {}, .port = usual_port(is_https), .prefix = {}, .is_https = is_https};
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    address.prefix = prefix_of(rest.substr(slash));
    rest = rest.substr(0, slash);
  }
  const auto bracket = rest.starts_with('[') ? rest.find(']') : std::string_view::npos;
  const auto colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) address.port = parse_port(url, rest.substr(colon + 1));
  auto host = rest.substr(0, colon);
  if (bracket != std::string_view::npos) host = rest.substr(1, bracket - 1);
  if (host.empty()) refuse(url, "it names no host");
  address.host = std::string(host);
  return address;
}

}  // namespace troupe::loadgen
