// SPDX-License-Identifier: Apache-2.0
// HeadNorm (gpu/operators/head_norm.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct HeadNormArguments {
  float* qkv = nullptr;  // [num_rows, (num_heads + 2 num_kv_heads) * head_dim]
  std::size_t qkv_stride = 0;
  const float* query_weight = nullptr;  // [head_dim]
  const float* key_weight = nullptr;    // [head_dim]
  std::size_t num_rows = 0;
  std::size_t num_heads = 0;
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;
  float epsilon = 1e-6F;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t head_norm_num_tasks(const HeadNormArguments& arguments);
void head_norm_run_task(const HeadNormArguments& arguments, std::size_t task);

}  // namespace troupe
