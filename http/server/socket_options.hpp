// SPDX-License-Identifier: Apache-2.0
// Kernel options of a client's socket, so that slow readers are
// felt and vanished ones are noticed.
#pragma once

#include "http/limits.hpp"

namespace troupe {

// Throws std::system_error if the kernel refuses one.
void apply_socket_options(int socket, const Limits& limits);

}  // namespace troupe
