// SPDX-License-Identifier: Apache-2.0
// GatherRows (gpu/operators/gather_rows.hpp) on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct GatherRowsArguments {
  const float* x = nullptr;  // [tokens, width]
  std::size_t x_stride = 0;
  const void* residual = nullptr;  // [tokens, width] of `type`, or none
  std::size_t residual_stride = 0;
  DataType type = DataType::kF32;       // kF32, kF16 or kBF16
  const std::uint32_t* rows = nullptr;  // [num_rows]
  float* gathered = nullptr;            // [num_rows, width]
  std::size_t gathered_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_gather_rows(const GatherRowsArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
