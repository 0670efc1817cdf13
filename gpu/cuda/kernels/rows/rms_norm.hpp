// SPDX-License-Identifier: Apache-2.0
// RmsNorm (gpu/operators/rms_norm.hpp) on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct RmsNormArguments {
  float* x = nullptr;  // [num_rows, width]; written only with a residual
  std::size_t x_stride = 0;
  const void* residual = nullptr;  // [num_rows, width] of `type`, or none
  std::size_t residual_stride = 0;
  const float* weight = nullptr;  // [width]
  void* normed = nullptr;         // [num_rows, width] of `type`
  std::size_t normed_stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 1e-5F;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_rms_norm(const RmsNormArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
