// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::loadgen {

// Parses a command's own arguments. None if all is well; else the exit status,
// and what is to be said was printed: help to stdout, errors to stderr, with the
// nearest known flag where one is unknown.
std::optional<int> parse_flags(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
