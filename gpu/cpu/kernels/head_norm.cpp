// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/head_norm.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 8;
}

std::size_t head_norm_num_tasks(const HeadNormArguments& arguments) {
  return (arguments.num_rows + kRowsOfTask - 1) / kRowsOfTask;
}

void head_norm_run_task(const HeadNormArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.num_rows, (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    for (std::size_t head = 0; head < arguments.num_heads + arguments.num_kv_heads; ++head) {
      float* x = arguments.qkv + row * arguments.qkv_stride + head * arguments.head_dim;
      kernels.normalize({.x = x,
                         .weight = head < arguments.num_heads ? arguments.query_weight : arguments.key_weight,
                         .normed = x,
                         .width = arguments.head_dim,
                         .epsilon = arguments.epsilon});
    }
  }
}

}  // namespace troupe
