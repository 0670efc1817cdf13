// SPDX-License-Identifier: Apache-2.0
// The activations of feed-forward layers, each fused with what stands before it:
//   gated:  h = silu(gate) * up, silu(v) = v / (1 + exp(-v))
//   GELU:   h = gelu(x + bias), gelu(v) = v / 2 * (1 + erf(v / sqrt(2))), or its
//           approximation by tanh (Hendrycks and Gimpel, 2016)
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct GatedActivationArguments {
  const void* gate_up = nullptr;  // [num_rows, 2 * width] of `type`: gate first
  std::size_t gate_up_stride = 0;
  void* h = nullptr;  // [num_rows, width] of `type`
  std::size_t h_stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
};

enum class GeluForm : std::uint8_t { kErf, kTanh };

struct BiasGeluArguments {
  const void* x = nullptr;  // [num_rows, width] of `type`
  std::size_t x_stride = 0;
  const float* bias = nullptr;  // [width], or none
  void* h = nullptr;            // [num_rows, width] of `type`; may be x
  std::size_t h_stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  GeluForm form = GeluForm::kErf;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
};

// Throw CudaError. Any thread.
void launch_gated_activation(const GatedActivationArguments& arguments, StreamHandle stream);
void launch_bias_gelu(const BiasGeluArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
