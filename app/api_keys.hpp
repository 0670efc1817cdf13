// SPDX-License-Identifier: Apache-2.0
// The keys that open the server: the one of the options, and those of a file; and who
// needs none.
#pragma once

#include <string_view>
#include <vector>

#include "app/options/options.hpp"
#include "http/server/server.hpp"

namespace troupe {

// 1 to 512 printable ASCII characters.
bool is_api_key(std::string_view text);

// The file has a line a key: the tenant's name, white space, the key; empty
// lines and those that begin with # are skipped. A tenant may have several
// keys. Throws std::runtime_error with file and line, never with a key.
std::vector<ApiKey> load_api_keys(const Options& options);

// Fills in where the server listens and for whom: address, keys, origins, hosts. Throws
// ConfigurationError that names the option.
void read_access(const Options& options, ServerOptions& server);

}  // namespace troupe
