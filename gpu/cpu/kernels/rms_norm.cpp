// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/rms_norm.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 8;
}

std::size_t rms_norm_num_tasks(const RmsNormArguments& arguments) {
  return (arguments.num_rows + kRowsOfTask - 1) / kRowsOfTask;
}

void rms_norm_run_task(const RmsNormArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.num_rows, (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    kernels.normalize({
        .x = arguments.x + row * arguments.x_stride,
        .residual =
            arguments.residual == nullptr ? nullptr : arguments.residual + row * arguments.residual_stride,
        .weight = arguments.weight,
        .normed = static_cast<std::byte*>(arguments.normed) +
                  row * arguments.normed_stride * size_of(arguments.normed_type),
        .normed_type = arguments.normed_type,
        .width = arguments.width,
        .epsilon = arguments.epsilon,
    });
  }
}

}  // namespace troupe
