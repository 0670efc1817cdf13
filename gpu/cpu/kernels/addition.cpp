// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/addition.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kElementsOfTask = 8192;
}

std::size_t addition_num_tasks(const AdditionArguments& arguments) {
  return (arguments.num_elements + kElementsOfTask - 1) / kElementsOfTask;
}

void addition_run_task(const AdditionArguments& arguments, std::size_t task) {
  const std::size_t first = task * kElementsOfTask;
  const std::size_t count = std::min(arguments.num_elements - first, kElementsOfTask);
  float* x = arguments.x + first;
  kernel_table(arguments.isa).add(x, arguments.y + first, x, count);
}

}  // namespace troupe
