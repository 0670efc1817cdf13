// SPDX-License-Identifier: Apache-2.0
// The norms, fused with the addition before them: x += residual + residual_bias
// where given, x is written back, then
//   RMSNorm:    normed = x / sqrt(mean(x²) + epsilon) * weight
//   LayerNorm:  normed = (x - mean) / sqrt(variance + epsilon) * weight + bias
//
// The variance comes from one pass with one reduction, as in TurboTransformers
// (§4.1.2), but not from mean(x²) - mean(x)², which loses all digits where the
// mean is large: each thread takes the squares around its own mean, and pairs
// are merged by Chan, Golub and LeVeque's formula (1979).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct NormArguments {
  float* x = nullptr;  // [num_rows, width]; written only if something is added
  std::size_t x_stride = 0;
  const void* residual = nullptr;  // [num_rows, width] of `type`, or none
  std::size_t residual_stride = 0;
  const float* residual_bias = nullptr;  // [width], or none
  const float* weight = nullptr;         // [width]
  const float* bias = nullptr;           // [width], LayerNorm only
  void* normed = nullptr;                // [num_rows, width] of `type`
  std::size_t normed_stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float epsilon = 1e-5F;
};

// Throw CudaError. Any thread.
void launch_rms_norm(const NormArguments& arguments, StreamHandle stream);
void launch_layer_norm(const NormArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
