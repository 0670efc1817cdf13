// SPDX-License-Identifier: Apache-2.0
// Pool (gpu/operators/pool.hpp) on a GPU; means are summed in order.
#pragma once

#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/operators/batch_rows.hpp"
#include "gpu/operators/pooling_mode.hpp"

namespace troupe::cuda {

// Device pointers; rows lie one behind the other.
struct PoolArguments {
  const float* x = nullptr;           // [tokens, width]
  const BatchRows* slices = nullptr;  // [num_slices]
  std::uint32_t num_slices = 0;
  float* vectors = nullptr;  // [num_slices, width]
  std::uint32_t width = 0;
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;
};

// Throws CudaError. Any thread.
void launch_pool(const PoolArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
