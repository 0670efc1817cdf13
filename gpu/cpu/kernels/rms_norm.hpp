// SPDX-License-Identifier: Apache-2.0
// RmsNorm (gpu/operators/rms_norm.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

struct RmsNormArguments {
  float* x = nullptr;  // [num_rows, width]; written only with a residual
  std::size_t x_stride = 0;
  const float* residual = nullptr;  // [num_rows, width] or none
  std::size_t residual_stride = 0;
  const float* weight = nullptr;          // [width]
  void* normed = nullptr;                 // [num_rows, width]
  DataType normed_type = DataType::kF32;  // kF32 or kBF16
  std::size_t normed_stride = 0;
  std::size_t num_rows = 0;
  std::size_t width = 0;
  float epsilon = 1e-5F;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t rms_norm_num_tasks(const RmsNormArguments& arguments);
void rms_norm_run_task(const RmsNormArguments& arguments, std::size_t task);

}  // namespace troupe
