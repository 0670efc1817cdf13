// SPDX-License-Identifier: Apache-2.0
#include "app/api_keys.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/options/configuration_error.hpp"
#include "app/options/option_checks.hpp"
#include "app/tenant_limits.hpp"
#include "telemetry/log.hpp"
#include "telemetry/regular_file.hpp"

namespace troupe {
namespace {

constexpr const char* kDefaultTenant = "default";  // of the one key of the options
constexpr const char* kOthers = "*";               // tenants without limits of their own
constexpr std::size_t kMaxTenantBytes = 64;
constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::size_t kMaxFileBytes = 64 << 20;

void add_key(std::vector<ApiKey>& keys, ApiKey entry) {
  const bool is_known =
      std::any_of(keys.begin(), keys.end(), [&](const auto& other) { return other.key == entry.key; });
  if (is_known) throw std::runtime_error("this key is given twice: whose is it?");
  keys.push_back(std::move(entry));
}

bool is_tenant(const std::string& text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kMaxTenantBytes && std::all_of(text.begin(), text.end(), is_allowed);
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// A line in the order in which it is read; what is wrong with its beginning is said first.
class KeyFileReader {
 public:
  explicit KeyFileReader(LoadedKeys& loaded) : loaded_(loaded) {}

  void read_line(const std::string& line) {
    std::vector<std::string> words = words_of(line);
    const std::string tenant = words.front();
    const bool is_for_others = tenant == kOthers;
    if (!is_for_others && !is_tenant(tenant))
      throw std::runtime_error("expected a tenant's name of 1 to 64 letters, digits, '.', '_' or '-'");
    const std::string key = is_for_others || words.size() < 2 ? "" : words[1];
    if (!is_for_others && !is_api_key(key))
      throw std::runtime_error("expected a key of 1 to 512 printable ASCII characters");
    if (!is_for_others && is_tenant_limit(key))
      throw std::runtime_error(
          "expected a key behind the tenant's name, got a limit: those stand behind the key");
    words.erase(words.begin(), words.begin() + (is_for_others ? 1 : 2));
    if (is_for_others && words.empty())
      throw std::runtime_error("expected limits behind *, for tenants without limits of their own");
    if (!words.empty()) add_limits(tenant, parse_tenant_limits(words));
    if (!is_for_others) add_key(loaded_.keys, {.tenant = tenant, .key = std::string_view(key)});
  }

 private:
  void add_limits(const std::string& tenant, const TenantLimits& limits) {
    if (!limited_.insert(tenant).second)
      throw std::runtime_error("limits of this tenant are given twice: which are meant?");
    (tenant == kOthers ? loaded_.limits.others : loaded_.limits.by_tenant[tenant]) = limits;
  }

  LoadedKeys& loaded_;
  std::set<std::string> limited_;
};

void warn_if_open(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    log(LogLevel::kWarning, "others on this machine may read the API keys", {{"file", file}});
}

void load_file(const std::string& file, LoadedKeys& loaded) {
  std::istringstream stream(read_regular_file(file, kMaxFileBytes));
  warn_if_open(file);
  const auto num_before = loaded.keys.size();
  KeyFileReader reader(loaded);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    try {
      reader.read_line(line);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  // A file without a key would open the server to everyone.
  if (loaded.keys.size() == num_before) throw std::runtime_error(file + ": expected at least one key");
}

}  // namespace

bool is_api_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKeyBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

LoadedKeys load_api_keys(const Options& options) {
  LoadedKeys loaded;
  if (!options.api_key.empty())
    add_key(loaded.keys, {.tenant = kDefaultTenant, .key = std::string_view(options.api_key)});
  if (!options.api_keys_file.empty()) load_file(options.api_keys_file, loaded);
  return loaded;
}

void read_access(const Options& options, ServerOptions& server) {
  server.host = options.host;
  server.port = static_cast<std::uint16_t>(options.port);
  LoadedKeys loaded = from_option("--api-key, --api-keys-file", [&] { return load_api_keys(options); });
  server.api_keys = std::move(loaded.keys);
  server.tenant_limits = std::move(loaded.limits);
  server.allow_public_without_key = options.allow_open_network;
  server.cors_origins = split_at_commas(options.cors_origins);
  server.allowed_hosts = split_at_commas(options.allowed_hosts);
}

}  // namespace troupe
