// SPDX-License-Identifier: Apache-2.0
// A backend in a worker process (gpu/child/worker_loop.hpp): what it allocates
// and whatever goes wrong with it is not the server's. Its devices are
// ChildDevices, each in a process of its own with weights of its own, as many at once
// as are asked for; one that failed has taken its process with it, and the next one
// gets a new process, which plans the same memory again.
#pragma once

#include <memory>
#include <string>

#include "gpu/backend.hpp"
#include "gpu/child/messages.hpp"
#include "gpu/child/worker_process.hpp"

namespace troupe::child {

struct ChildBackendSettings {
  // Runs the worker: this program, even if its file was replaced meanwhile.
  Command command = {.program = "/proc/self/exe", .arguments = {"troupe", "worker"}};
  BackendKind kind = BackendKind::kCpu;
  std::string library;  // of CUDA
};

// Starts the first process and has it plan. Host pages for make_device() must be
// shared ones. Throws std::runtime_error with what the worker said, or how it
// ended.
std::unique_ptr<Backend> make_child_backend(const BackendSettings& settings,
                                            const ChildBackendSettings& child);

}  // namespace troupe::child
