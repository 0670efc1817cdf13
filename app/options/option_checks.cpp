// SPDX-License-Identifier: Apache-2.0
#include "app/options/option_checks.hpp"

#include <algorithm>

#include <boost/asio/ip/address.hpp>

#include "app/api_keys.hpp"
#include "http/routing/trusted_hosts.hpp"
#include "telemetry/cpu_list.hpp"
#include "telemetry/quoted_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxModelNameBytes = 128;

std::string got(std::string_view text) {
  std::string out = ", got ";
  append_quoted(out, text);
  return out;
}

}  // namespace

std::optional<std::string> wrong_address(std::string_view text) {
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(text), error);
  if (!error || text == "localhost") return std::nullopt;
  return "expected an IP address of this machine or localhost" + got(text);
}

std::optional<std::string> wrong_hosts(std::string_view text) {
  for (const auto& host : split_at_commas(text)) {
    if (!is_host(host)) return "expected names or addresses without a port, comma separated" + got(host);
  }
  return std::nullopt;
}

std::optional<std::string> wrong_origins(std::string_view text) {
  for (const auto& origin : split_at_commas(text)) {
    if (!is_origin(origin)) return "expected origins such as https://chat.example:3000, or *" + got(origin);
  }
  return std::nullopt;
}

std::optional<std::string> wrong_cpu_list(std::string_view text) {
  if (text.empty() || parse_cpu_list(text)) return std::nullopt;
  return "expected numbers of CPUs such as 0-2,5" + got(text);
}

std::optional<std::string> wrong_api_key(std::string_view text) {
  if (text.empty() || is_api_key(text)) return std::nullopt;
  return "expected 1 to 512 printable ASCII characters without blanks";
}

std::optional<std::string> wrong_model_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '/' || c == ':' || c == '-';
  };
  if (text.size() <= kMaxModelNameBytes && std::all_of(text.begin(), text.end(), is_allowed))
    return std::nullopt;
  return "expected 1 to 128 letters, digits, '.', '_', '/', ':' or '-'" +
         got(text.substr(0, kMaxModelNameBytes));
}

std::optional<std::string> wrong_model_aliases(std::string_view text) {
  for (const auto& alias : split_at_commas(text)) {
    if (alias == "*") continue;
    if (const auto expected = wrong_model_name(alias)) return expected;
  }
  return std::nullopt;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string> parts;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    part.remove_prefix(std::min(part.find_first_not_of(kBlanks), part.size()));
    part = part.substr(0, part.find_last_not_of(kBlanks) + 1);
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

}  // namespace troupe
