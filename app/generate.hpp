// SPDX-License-Identifier: Apache-2.0
// `troupe generate`: one prompt, tokens streamed to the terminal.
#pragma once

#include <istream>
#include <string>

#include "app/options/command_line.hpp"

namespace troupe {

// The command's prompt, or what `input` says without the line break at its end.
// Throws UsageError if there is neither. is_terminal: `input` is not read unless
// the prompt is "-".
std::string prompt_of(const GenerateCommand& command, std::istream& input, bool is_terminal);

// The exit status: 0, or 1 if the request failed (its error goes to standard
// error). Throws std::runtime_error if the model can't be loaded.
int run_generate(const GenerateCommand& command);

}  // namespace troupe
