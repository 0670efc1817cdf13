// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on the CPU: what tests and twins of other libraries use of it
// beside CUDA's own functions.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace troupe::simt {

// Puts work that counts as one kernel on a stream, as a launch does: it runs when
// the stream comes to it, or becomes a node of the graph that the stream captures
// and runs at every replay. `work` must own (copy) all its arguments. What it
// throws becomes the device's error. Returns what a launch would.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace troupe::simt
