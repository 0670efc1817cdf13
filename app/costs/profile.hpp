// SPDX-License-Identifier: Apache-2.0
// `troupe profile`: measures what batches cost on this machine, or takes it from
// iterations that were served, and what the engine adds, and stores it for
// `troupe-loadgen simulate`.
#pragma once

#include "app/options/command_line.hpp"

namespace troupe {

// The exit status: 0. Throws std::runtime_error if the model can't be loaded, the device fails, no cost can
// be fitted to the times or the file can't be written.
int run_profile(const ProfileCommand& command);

}  // namespace troupe
