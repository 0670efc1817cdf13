// SPDX-License-Identifier: Apache-2.0
#include "http/routing/trusted_hosts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "http/wire/framing.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxPortDigits = 5;
constexpr std::uint32_t kMaxPort = 65535;
constexpr std::size_t kMaxHostBytes = 253;
constexpr std::size_t kMaxOriginBytes = 512;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxHostBytes && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

// text: digits, kMaxPortDigits of them at most.
std::uint32_t port_number(std::string_view text) {
  std::uint32_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

// Empty or :port.
bool is_port_part(std::string_view text) {
  return text.empty() ||
         (text.front() == ':' && text.size() <= 1 + kMaxPortDigits &&
          std::all_of(text.begin() + 1, text.end(), is_digit) && port_number(text.substr(1)) <= kMaxPort);
}

bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
  return text.size() > end.size() && equal_ignoring_case(text.substr(text.size() - end.size()), end);
}

std::optional<boost::asio::ip::address> address_of(std::string_view text) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(text), error);
  if (error) return std::nullopt;
  return address;
}

// An IPv6 address has many spellings.
bool is_same_host(std::string_view a, std::string_view b) {
  if (equal_ignoring_case(a, b)) return true;
  const auto left = address_of(a), right = address_of(b);
  return left && right && *left == *right;
}

bool is_v6(std::string_view text) {
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(std::string(text), error);
  return !error;
}

bool binds_all(std::string_view bound) {
  const auto address = address_of(bound);
  return address && address->is_unspecified();
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::uint32_t default_port(std::string_view scheme) {
  if (scheme == "http") return 80;
  return scheme == "https" ? 443 : 0;
}

std::vector<std::string> normalized(std::vector<std::string> origins) {
  for (auto& origin : origins) origin = normalized_origin(origin);
  return origins;
}

}  // namespace

std::string_view host_name_of(std::string_view field) {
  if (field.starts_with('[')) {
    const std::size_t end = field.find(']');
    if (end == std::string_view::npos || !is_port_part(field.substr(end + 1))) return {};
    const auto name = field.substr(1, end - 1);
    return is_v6(name) ? name : std::string_view();
  }
  std::string_view name = field.substr(0, field.find(':'));
  if (!is_port_part(field.substr(name.size()))) return {};
  if (name.ends_with('.')) name.remove_suffix(1);  // the root
  return is_name(name) ? name : std::string_view();
}

bool is_loopback_host(std::string_view name) {
  if (equal_ignoring_case(name, "localhost") || ends_with_ignoring_case(name, ".localhost")) return true;
  const auto address = address_of(name);
  return address && address->is_loopback();
}

bool is_host(std::string_view text) { return is_v6(text) || (host_name_of(text) == text && is_name(text)); }

bool is_origin(std::string_view text) {
  if (text == "*" || text == "null") return true;
  const std::size_t colon = text.find("://");
  if (text.size() > kMaxOriginBytes || colon == std::string_view::npos || colon == 0) return false;
  const std::string_view scheme = text.substr(0, colon);
  const bool is_scheme = is_letter(scheme[0]) && std::all_of(scheme.begin(), scheme.end(), [](char c) {
                           return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
                         });
  return is_scheme && !host_name_of(text.substr(colon + 3)).empty();
}

std::string normalized_origin(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return std::string(text);
  const std::string scheme = lower_case(text.substr(0, colon));
  const std::string_view rest = text.substr(colon + 3);
  const bool is_bracketed = rest.starts_with('[');
  const std::size_t host_end = std::min(rest.find(':', is_bracketed ? rest.find(']') : 0), rest.size());
  std::string out = scheme + "://";
  if (is_bracketed) {
    const std::string address(rest.substr(1, host_end - 2));
    out += "[" + boost::asio::ip::make_address_v6(address).to_string() + "]";
  } else {
    out += lower_case(rest.substr(0, host_end));
  }
  const std::string_view digits = rest.substr(std::min(host_end + 1, rest.size()));
  const std::uint32_t port = port_number(digits);
  if (digits.empty() || port == default_port(scheme)) return out;
  return out + ":" + std::to_string(port);
}

TrustedHosts::TrustedHosts(std::string_view bound, std::vector<std::string> allowed,
                           std::vector<std::string> origins)
    : bound_(bound), allowed_(std::move(allowed)), origins_(normalized(std::move(origins))) {}

bool TrustedHosts::trusts_host(std::string_view field) const {
  const std::string_view name = host_name_of(field);
  if (name.empty()) return false;
  if (is_same_host(bound_, name) || (binds_all(bound_) && address_of(name))) return true;
  return is_loopback_host(name) || std::any_of(allowed_.begin(), allowed_.end(),
                                               [&](const auto& host) { return is_same_host(host, name); });
}

const std::string* TrustedHosts::allows_origin(std::string_view origin) const {
  if (origin.empty()) return nullptr;
  const auto found = std::find_if(origins_.begin(), origins_.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
  return found == origins_.end() ? nullptr : &*found;
}

// A proxy in front may speak TLS.
bool TrustedHosts::is_same_origin(std::string_view origin, std::string_view host_field) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && equal_ignoring_case(origin.substr(scheme.size()), host_field))
      return !host_field.empty();
  }
  return false;
}

}  // namespace troupe
