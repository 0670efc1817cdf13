// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/soft_cap.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kElementsOfTask = 8192;
}

std::size_t soft_cap_num_tasks(const SoftCapArguments& arguments) {
  return (arguments.num_elements + kElementsOfTask - 1) / kElementsOfTask;
}

void soft_cap_run_task(const SoftCapArguments& arguments, std::size_t task) {
  const std::size_t first = task * kElementsOfTask;
  const std::size_t count = std::min(arguments.num_elements - first, kElementsOfTask);
  kernel_table(arguments.isa).soft_cap(arguments.cap, arguments.x + first, count);
}

}  // namespace troupe
