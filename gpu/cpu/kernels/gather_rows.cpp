// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/gather_rows.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 16;
}

std::size_t gather_rows_num_tasks(const GatherRowsArguments& arguments) {
  return (arguments.rows.size() + kRowsOfTask - 1) / kRowsOfTask;
}

void gather_rows_run_task(const GatherRowsArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.rows.size(), (task + 1) * kRowsOfTask);
  for (std::size_t i = task * kRowsOfTask; i < last; ++i) {
    const float* x = arguments.x + arguments.rows[i] * arguments.x_stride;
    float* gathered = arguments.gathered + i * arguments.gathered_stride;
    if (arguments.residual == nullptr) {
      std::memcpy(gathered, x, arguments.width * sizeof(float));
    } else {
      kernels.add(x, arguments.residual + arguments.rows[i] * arguments.residual_stride, gathered,
                  arguments.width);
    }
  }
}

}  // namespace troupe
