// SPDX-License-Identifier: Apache-2.0
// The prompt of `troupe generate`.
#pragma once

#include <istream>
#include <string>

#include "app/options/command_line.hpp"

namespace troupe {

// The command's prompt, or what `input` says without the line break at its end.
// Throws UsageError if there is neither. is_terminal: `input` is not read unless
// the prompt is "-".
std::string prompt_of(const GenerateCommand& command, std::istream& input, bool is_terminal);

}  // namespace troupe
