// SPDX-License-Identifier: Apache-2.0
// `troupe generate`: one prompt, tokens streamed to the terminal.
#pragma once

#include "app/command_line.hpp"

namespace troupe {

// The exit status: 0, or 1 if the request failed (its error goes to standard
// error). Throws std::runtime_error if the model can't be loaded.
int run_generate(const GenerateCommand& command);

}  // namespace troupe
