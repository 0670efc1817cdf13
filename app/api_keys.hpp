// SPDX-License-Identifier: Apache-2.0
// Who may use the server: the one key of the options, and those of a file.
#pragma once

#include <vector>

#include "app/options.hpp"
#include "http/server.hpp"

namespace troupe {

// The file has a line a key: the tenant's name, white space, the key; empty
// lines and those that begin with # are skipped. A tenant may have several
// keys. Throws std::runtime_error with file and line, never with a key.
std::vector<ApiKey> load_api_keys(const Options& options);

}  // namespace troupe
