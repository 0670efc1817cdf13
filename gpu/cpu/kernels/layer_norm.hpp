// SPDX-License-Identifier: Apache-2.0
// LayerNorm (gpu/operators/layer_norm.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

// All rows are `width` floats, one behind the other.
struct LayerNormArguments {
  const float* x = nullptr;
  const float* residual = nullptr;   // or none
  const float* weight = nullptr;     // [width]
  const float* bias = nullptr;       // [width]
  float* normed = nullptr;           // may be x or residual
  std::uint16_t* rounded = nullptr;  // normed as bf16, or none
  std::size_t num_rows = 0;
  std::size_t width = 0;
  float epsilon = 1e-12F;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t layer_norm_num_tasks(const LayerNormArguments& arguments);
void layer_norm_run_task(const LayerNormArguments& arguments, std::size_t task);

}  // namespace troupe
