// SPDX-License-Identifier: Apache-2.0
// The products of a mixture of experts: rows of a lie grouped by expert, and each expert that has some is
// one product over them. The experts' matrices are stacked in one packed weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"

namespace troupe {

struct ExpertMatmulArguments {
  const PackedMatrix* weight = nullptr;  // [num_experts * N, K], N a multiple of 32
  std::size_t num_experts = 0;
  const std::int32_t* bounds = nullptr;  // [num_experts + 1]: rows [bounds[e], bounds[e + 1]) are expert e's
  const void* a = nullptr;               // [rows, K]
  DataType a_type = DataType::kF32;      // kF32 or kBF16
  std::size_t a_stride = 0;
  Q8Rows q8_rows = {};          // as in MatmulArguments
  const float* bias = nullptr;  // [num_experts * N] or none
  float* c = nullptr;           // [rows, N]
  std::size_t c_stride = 0;
  std::size_t num_threads = 1;
  Isa isa = best_isa();
};

struct ExpertProducts {
  std::vector<MatmulArguments> products;  // of the experts that have rows
  std::vector<std::size_t> task_ends;     // of each product, behind those before it
};

ExpertProducts plan_expert_matmul(const ExpertMatmulArguments& arguments);

std::size_t expert_matmul_num_tasks(const ExpertProducts& plan);
void expert_matmul_run_task(const ExpertProducts& plan, std::size_t task);

}  // namespace troupe
