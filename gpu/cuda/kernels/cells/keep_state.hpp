// SPDX-License-Identifier: Apache-2.0
// KeepState (gpu/operators/cells/keep_state.hpp) on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// Device pointers.
struct KeepStateArguments {
  StateRows state;
  std::size_t offset = 0;    // floats of a row
  const float* x = nullptr;  // [nodes, width]
  std::uint32_t width = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_keep_state(const KeepStateArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
