// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manual/program_manual.hpp"

namespace CLI {
class App;
}

namespace troupe::loadgen {

// The one argument of a command that is only to be described, by the exception below.
inline constexpr const char* kDescribe = "--describe-for-manual";

struct CommandDescribed {
  ManualCommand command;
};

// Parses a command's own arguments. None if all is well; else the exit status,
// and what is to be said was printed: help to stdout, errors to stderr, with the
// nearest known flag where one is unknown. Throws CommandDescribed for kDescribe alone.
std::optional<int> parse_flags(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
