// SPDX-License-Identifier: Apache-2.0
// `troupe worker`: the process in which a server's device is (gpu/child).
#pragma once

#include "app/options/command_line.hpp"

namespace troupe {

// Its socket is descriptor 3. Returns the exit status when the server has gone.
int run_worker_process(const WorkerCommand& command);

}  // namespace troupe
