// SPDX-License-Identifier: Apache-2.0
// `troupe serve`: load, listen, and stay until a signal or a failed engine.
#pragma once

#include "app/options.hpp"

namespace troupe {

// The exit status: 0 after an orderly end, 70 if the engine gave up (a service
// manager should start us again). Throws std::runtime_error if it can't start.
int run_serve(const Options& options);

}  // namespace troupe
