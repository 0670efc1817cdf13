// SPDX-License-Identifier: Apache-2.0
// The machine and the server that a result was measured with, as far as they say: without
// it two results can't be compared later.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

// The generator's machine: "generator cpu", "generator cpus", "generator kernel",
// "load average before".
NamedTexts generator_machine();
// Mean number of processes that wanted a CPU in the last minute: "0.31"; empty: unknown.
std::string load_average();
// "1.4.0", as GET /version says it, /api/version (Ollama) or /props (llama.cpp); empty: none does.
std::string server_version(const ServerAddress& server, std::string_view api_key);

}  // namespace troupe::loadgen
