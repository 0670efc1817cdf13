// SPDX-License-Identifier: Apache-2.0
// `troupe inspect DIR`: what a model directory holds, what memory it needs, and
// one clear word on anything unsupported.
#pragma once

#include "app/options/command_line.hpp"

namespace troupe {

// The exit status: 0 if the model can be served, 1 if not.
int run_inspect(const InspectCommand& command);

}  // namespace troupe
