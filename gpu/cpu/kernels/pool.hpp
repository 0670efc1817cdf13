// SPDX-License-Identifier: Apache-2.0
// Pool (gpu/operators/pool.hpp) on CPU cores; means are summed in order.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/operators/batch_rows.hpp"
#include "gpu/operators/pooling_mode.hpp"

namespace troupe {

struct PoolArguments {
  const float* x = nullptr;  // [tokens, width]
  std::span<const BatchRows> slices;
  float* vectors = nullptr;  // [slices, width]
  std::size_t width = 0;
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;
  Isa isa = best_isa();
};

// A task is a slice.
std::size_t pool_num_tasks(const PoolArguments& arguments);
void pool_run_task(const PoolArguments& arguments, std::size_t task);

}  // namespace troupe
