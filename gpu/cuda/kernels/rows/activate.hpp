// SPDX-License-Identifier: Apache-2.0
// Activate (gpu/operators/activate.hpp) on a GPU.
#pragma once

#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"

namespace troupe::cuda {

// Device pointers; rows lie one behind the other.
struct ActivateArguments {
  Activation activation = Activation::kGelu;
  const void* x = nullptr;           // [num_rows, width] of x_type
  DataType x_type = DataType::kF32;  // kF32, or as h_type
  void* h = nullptr;                 // [num_rows, width] of h_type; may be x if the types are one
  DataType h_type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError; std::invalid_argument for other types. Any thread.
void launch_activate(const ActivateArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
