// SPDX-License-Identifier: Apache-2.0
// `troupe trace FILE`: a summary of a trace file, and a timeline for Perfetto.
#pragma once

#include "app/options/command_line.hpp"

namespace troupe {

// The exit status: 0. Throws std::runtime_error if the file can't be read, is no
// trace file, or the timeline can't be written.
int run_trace(const TraceCommand& command);

}  // namespace troupe
