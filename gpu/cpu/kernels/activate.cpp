// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/activate.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 4;
}

std::size_t activate_num_tasks(const ActivateArguments& arguments) {
  return (arguments.num_rows + kRowsOfTask - 1) / kRowsOfTask;
}

void activate_run_task(const ActivateArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.num_rows, (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    const std::size_t at = row * arguments.width;
    kernels.activate_row(arguments.activation, arguments.x + at,
                         static_cast<std::byte*>(arguments.h) + at * size_of(arguments.h_type),
                         arguments.h_type, arguments.width);
  }
}

}  // namespace troupe
