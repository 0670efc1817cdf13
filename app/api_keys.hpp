// SPDX-License-Identifier: Apache-2.0
// The keys that open the server: the one of the options, and those of a file with the limits
// of their tenants; and the clients that need none.
#pragma once

#include <string_view>
#include <vector>

#include "app/options/options.hpp"
#include "http/server/server.hpp"

namespace troupe {

// 1 to 512 printable ASCII characters.
bool is_api_key(std::string_view text);

struct LoadedKeys {
  std::vector<ApiKey> keys;
  TenantLimitTable limits;  // of their tenants
};

// The file has a line a key: the tenant's name, white space, the key, the tenant's limits if
// it has any (app/tenant_limits.hpp); empty lines and those that begin with # are skipped. A
// tenant may have several keys, and limits behind one of them. A line of `*` and limits, without
// a key, is for the tenants that have none of their own. Throws std::runtime_error with file and
// line, never with a key.
LoadedKeys load_api_keys(const Options& options);

// Fills in where the server listens and for which clients: address, keys, limits, origins, hosts. Throws
// ConfigurationError that names the option.
void read_access(const Options& options, ServerOptions& server);

}  // namespace troupe
