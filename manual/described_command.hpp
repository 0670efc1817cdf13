// SPDX-License-Identifier: Apache-2.0
// What a command line's parser knows of a command, for its manual.
#pragma once

#include "manual/program_manual.hpp"

namespace CLI {
class App;
}

namespace troupe {

// Name, summary and all options and arguments that its --help shows.
ManualCommand describe(const CLI::App& command);

}  // namespace troupe
