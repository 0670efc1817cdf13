// SPDX-License-Identifier: Apache-2.0
// normed = (x - mean) / sqrt(variance + epsilon) * weight + bias; before that
// x += residual + residual_bias where given, and x is written back.
//
// The variance comes from one pass with one reduction, as in TurboTransformers
// (§4.1.2), but not from mean(x²) - mean(x)², which loses all digits where the
// mean is large: each thread takes the squares around its own mean, and pairs
// are merged by Chan, Golub and LeVeque's formula (1979).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct LayerNormArguments {
  float* x = nullptr;  // [num_rows, width]; written only if something is added
  std::size_t x_stride = 0;
  const void* residual = nullptr;  // [num_rows, width] of `type`, or none
  std::size_t residual_stride = 0;
  const float* residual_bias = nullptr;  // [width], or none
  const float* weight = nullptr;         // [width]
  const float* bias = nullptr;           // [width]
  void* normed = nullptr;                // [num_rows, width] of `type`
  std::size_t normed_stride = 0;
  DataType type = DataType::kF32;  // kF32 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 1e-5F;
};

// Throws CudaError. Any thread.
void launch_layer_norm(const LayerNormArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
