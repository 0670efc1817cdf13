// SPDX-License-Identifier: Apache-2.0
// LayerNorm (gpu/operators/layer_norm.hpp) on a GPU.
//
// The variance comes from one pass with one reduction, as in TurboTransformers
// (§4.1.2), but not from mean(x²) - mean(x)², which loses all digits where the
// mean is large: each thread takes the squares around its own mean, and pairs
// are merged by Chan, Golub and LeVeque's formula (1979).
#pragma once

#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; rows lie one behind the other.
struct LayerNormArguments {
  const float* x = nullptr;         // [num_rows, width]
  const float* residual = nullptr;  // [num_rows, width], or none
  const float* weight = nullptr;    // [width]
  const float* bias = nullptr;      // [width]
  float* normed = nullptr;          // [num_rows, width]; may be x or residual
  void* rounded = nullptr;          // normed in `type`, or none
  DataType type = DataType::kF32;   // of rounded: kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 1e-12F;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_layer_norm(const LayerNormArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
