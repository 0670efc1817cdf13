// SPDX-License-Identifier: Apache-2.0
// GatherRows (gpu/operators/gather_rows.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct GatherRowsArguments {
  const float* x = nullptr;  // [tokens, width]
  std::size_t x_stride = 0;
  const float* residual = nullptr;  // [tokens, width] or none
  std::size_t residual_stride = 0;
  std::span<const std::uint32_t> rows;  // which ones
  float* gathered = nullptr;            // [rows.size(), width] = x (+ residual)
  std::size_t gathered_stride = 0;
  std::size_t width = 0;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t gather_rows_num_tasks(const GatherRowsArguments& arguments);
void gather_rows_run_task(const GatherRowsArguments& arguments, std::size_t task);

}  // namespace troupe
