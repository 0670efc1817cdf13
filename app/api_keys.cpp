// SPDX-License-Identifier: Apache-2.0
#include "app/api_keys.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/options/configuration_error.hpp"
#include "app/options/option_checks.hpp"
#include "telemetry/log.hpp"
#include "telemetry/regular_file.hpp"

namespace troupe {
namespace {

constexpr const char* kDefaultTenant = "default";  // of the one key of the options
constexpr std::size_t kMaxTenantBytes = 64;
constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::size_t kMaxFileBytes = 64 << 20;

bool is_tenant(const std::string& text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kMaxTenantBytes && std::all_of(text.begin(), text.end(), is_allowed);
}

ApiKey parse_line(const std::string& line) {
  std::string tenant, key, rest;
  std::istringstream words(line);
  words >> tenant >> key;
  if (words >> rest) throw std::runtime_error("expected a tenant's name and a key, got more");
  if (!is_tenant(tenant))
    throw std::runtime_error("expected a tenant's name of 1 to 64 letters, digits, '.', '_' or '-'");
  if (!is_api_key(key)) throw std::runtime_error("expected a key of 1 to 512 printable ASCII characters");
  return {.tenant = std::move(tenant), .key = std::string_view(key)};
}

void add(std::vector<ApiKey>& keys, ApiKey entry) {
  const bool is_known =
      std::any_of(keys.begin(), keys.end(), [&](const auto& other) { return other.key == entry.key; });
  if (is_known) throw std::runtime_error("this key is given twice: whose is it?");
  keys.push_back(std::move(entry));
}

void warn_if_open(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    log(LogLevel::kWarning, "others on this machine may read the API keys", {{"file", file}});
}

void load_file(const std::string& file, std::vector<ApiKey>& keys) {
  std::istringstream stream(read_regular_file(file, kMaxFileBytes));
  warn_if_open(file);
  const auto num_before = keys.size();
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    try {
      add(keys, parse_line(line));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  // A file without a key would open the server to everyone.
  if (keys.size() == num_before) throw std::runtime_error(file + ": expected at least one key");
}

}  // namespace

bool is_api_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKeyBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::vector<ApiKey> load_api_keys(const Options& options) {
  std::vector<ApiKey> keys;
  if (!options.api_key.empty())
    add(keys, {.tenant = kDefaultTenant, .key = std::string_view(options.api_key)});
  if (!options.api_keys_file.empty()) load_file(options.api_keys_file, keys);
  return keys;
}

void read_access(const Options& options, ServerOptions& server) {
  server.host = options.host;
  server.port = static_cast<std::uint16_t>(options.port);
  server.api_keys = from_option("--api-key, --api-keys-file", [&] { return load_api_keys(options); });
  server.allow_public_without_key = options.allow_open_network;
  server.cors_origins = split_at_commas(options.cors_origins);
  server.allowed_hosts = split_at_commas(options.allowed_hosts);
}

}  // namespace troupe
