// SPDX-License-Identifier: Apache-2.0
// GatherState (gpu/operators/cells/gather_state.hpp) on a GPU, for products: their operand lies in
// one piece, in the products' type. Kernels that are ours find states by themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers.
struct GatherStateArguments {
  StateRows state;
  std::size_t offset = 0;  // floats of a row
  std::uint32_t width = 0;
  std::uint32_t first_input = 0;  // side by side
  std::uint32_t num_inputs = 1;   // side by side
  bool sums = false;
  void* gathered = nullptr;        // [nodes, num_inputs * width] of `type`, or [nodes, width] of sums
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint64_t* began = nullptr;  // gets the device's time, or none; not of one that overlaps
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_gather_state(const GatherStateArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
