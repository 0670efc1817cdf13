// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/expert_matmul.hpp"

#include <algorithm>

namespace troupe {

ExpertProducts plan_expert_matmul(const ExpertMatmulArguments& arguments) {
  ExpertProducts plan;
  const std::size_t num_outputs = arguments.weight->num_outputs() / arguments.num_experts;
  std::size_t num_tasks = 0;
  for (std::size_t expert = 0; expert < arguments.num_experts; ++expert) {
    const auto first = static_cast<std::size_t>(arguments.bounds[expert]);
    const auto end = static_cast<std::size_t>(arguments.bounds[expert + 1]);
    if (first == end) continue;
    const std::size_t first_output = expert * num_outputs;
    plan.products.push_back(
        {.weight = arguments.weight,
         .first_output = first_output,
         .num_outputs = num_outputs,
         .a = static_cast<const std::byte*>(arguments.a) +
              first * arguments.a_stride * size_of(arguments.a_type),
         .a_type = arguments.a_type,
         .a_stride = arguments.a_stride,
         .q8_rows = arguments.q8_rows.numbers == nullptr ? Q8Rows{} : rows_from(arguments.q8_rows, first),
         .bias = arguments.bias == nullptr ? nullptr : arguments.bias + first_output,
         .c = arguments.c + first * arguments.c_stride,
         .c_stride = arguments.c_stride,
         .num_rows = end - first,
         .num_threads = arguments.num_threads,
         .isa = arguments.isa});
    num_tasks += matmul_num_tasks(plan.products.back());
    plan.task_ends.push_back(num_tasks);
  }
  return plan;
}

std::size_t expert_matmul_num_tasks(const ExpertProducts& plan) {
  return plan.task_ends.empty() ? 0 : plan.task_ends.back();
}

void expert_matmul_run_task(const ExpertProducts& plan, std::size_t task) {
  const auto end = std::upper_bound(plan.task_ends.begin(), plan.task_ends.end(), task);
  const std::size_t first = end == plan.task_ends.begin() ? 0 : *(end - 1);
  matmul_run_task(plan.products[static_cast<std::size_t>(end - plan.task_ends.begin())], task - first);
}

}  // namespace troupe
