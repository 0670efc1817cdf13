// SPDX-License-Identifier: Apache-2.0
// GatedActivation (gpu/operators/gated_activation.hpp) on a GPU, by SiLU only.
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
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_gated_activation(const GatedActivationArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
