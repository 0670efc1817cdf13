// SPDX-License-Identifier: Apache-2.0
// `troupe convert MODEL OUT`: writes a model as a GGUF file whose matrices have 8 or 4 bits.
#pragma once

#include <string>

#include "app/options/command_line.hpp"

namespace troupe {

// Lines about what was written. Throws UsageError: OUT may not be written as asked; std::runtime_error that
// names the file and the reason. OUT is there whole or not at all.
std::string convert_model(const ConvertCommand& command);

}  // namespace troupe
