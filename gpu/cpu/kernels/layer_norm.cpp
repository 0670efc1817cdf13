// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/layer_norm.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 8;
}

std::size_t layer_norm_num_tasks(const LayerNormArguments& arguments) {
  return (arguments.num_rows + kRowsOfTask - 1) / kRowsOfTask;
}

void layer_norm_run_task(const LayerNormArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.num_rows, (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    const std::size_t at = row * arguments.width;
    kernels.normalize_layer({
        .x = arguments.x + at,
        .residual = arguments.residual == nullptr ? nullptr : arguments.residual + at,
        .weight = arguments.weight,
        .bias = arguments.bias,
        .normed = arguments.normed + at,
        .rounded = arguments.rounded == nullptr ? nullptr : arguments.rounded + at,
        .width = arguments.width,
        .epsilon = arguments.epsilon,
    });
  }
}

}  // namespace troupe
