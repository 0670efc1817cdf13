// SPDX-License-Identifier: Apache-2.0
// The loop of a worker process: makes the backend that the server asks for,
// then a device, runs its batches and sends their results, until the server
// closes the connection.
#pragma once

#include <functional>
#include <memory>

#include "gpu/child/frame_socket.hpp"
#include "gpu/child/messages.hpp"

namespace troupe::child {

using BackendMaker = std::function<std::unique_ptr<Backend>(const StartBackend&)>;

// The CPU backend, or that of the CUDA library.
std::unique_ptr<Backend> make_backend(const StartBackend& start);

// False: it could not go on; the server was told why, if it could be.
bool run_worker(FrameSocket socket, const BackendMaker& maker = make_backend);

}  // namespace troupe::child
