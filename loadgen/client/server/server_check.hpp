// SPDX-License-Identifier: Apache-2.0
// Asks a server for what must be known before it is measured. Blocking; errors say
// what was asked, what was expected and what came.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/client/http/completion_request.hpp"
#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

// GET /health, which a server need not have. Throws ServerUnreachable if nothing
// listens, or if it says that it is not ready.
void check_health(const ServerAddress& server);

// The model to ask for: `wanted` if the server has it, the first of GET
// /v1/models if `wanted` is empty. Throws std::runtime_error with the names that
// there are. A server without that list is believed to have any.
std::string find_model(const ServerAddress& server, std::string_view api_key, std::string_view wanted);

// How many of its tokens the server makes of a word, by its usage of two short
// requests; 0 if it does not say.
double measure_tokens_per_word(const ServerAddress& server, std::string_view api_key, Endpoint endpoint,
                               const std::string& model);

}  // namespace troupe::loadgen
