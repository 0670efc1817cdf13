// SPDX-License-Identifier: Apache-2.0
// Reads a command's manual from its command line's parser.
#pragma once

#include "manual/program_manual.hpp"

namespace CLI {
class App;
}

namespace troupe {

// Name, summary and all options and arguments that its --help shows.
ManualCommand describe(const CLI::App& command);

}  // namespace troupe
