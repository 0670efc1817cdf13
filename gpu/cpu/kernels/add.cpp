// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/add.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kElementsOfTask = 8192;
}

std::size_t add_num_tasks(const AddArguments& arguments) {
  return (arguments.num_elements + kElementsOfTask - 1) / kElementsOfTask;
}

void add_run_task(const AddArguments& arguments, std::size_t task) {
  const std::size_t first = task * kElementsOfTask;
  const std::size_t count = std::min(arguments.num_elements - first, kElementsOfTask);
  float* x = arguments.x + first;
  kernel_table(arguments.isa).add(x, arguments.y + first, x, count);
}

}  // namespace troupe
