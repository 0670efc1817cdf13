// SPDX-License-Identifier: Apache-2.0
// Scripts that complete a program's command line in bash, zsh and fish: commands, options,
// values where there are only some, files where a path is wanted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "manual/program_manual.hpp"

namespace troupe {

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// nullopt: it is none of kShells.
std::optional<std::string> completion_script(const ProgramManual& program, std::string_view shell);

}  // namespace troupe
