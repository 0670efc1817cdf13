// SPDX-License-Identifier: Apache-2.0
// One vector a slice: the mean of its rows, summed in order, the largest value of each
// column, its first row or its last; and, if wanted, divided by its length (at least 1e-12).
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cpu/kernels/batch_rows.hpp"
#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/operators/pooling_mode.hpp"

namespace troupe {

struct PoolingArguments {
  const float* x = nullptr;  // [tokens, width]
  std::span<const BatchRows> slices;
  float* vectors = nullptr;  // [slices, width]
  std::size_t width = 0;
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;
  Isa isa = best_isa();
};

// A task is a slice.
std::size_t pooling_num_tasks(const PoolingArguments& arguments);
void pooling_run_task(const PoolingArguments& arguments, std::size_t task);

}  // namespace troupe
