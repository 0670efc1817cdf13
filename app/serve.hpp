// SPDX-License-Identifier: Apache-2.0
// `troupe serve`: load, listen, and stay until a signal or a failed engine.
#pragma once

#include "app/ending_signals.hpp"
#include "app/options/command_line.hpp"

namespace troupe {

// The exit status: 0 after an orderly end, 70 if the engine gave up (a service
// manager should start us again). Throws ConfigurationError before anything is
// loaded if the options ask for what can't be had, std::runtime_error if the model
// can't be served.
int run_serve(const ServeCommand& command, EndingSignals& signals);

}  // namespace troupe
