// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/gated_activation.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 4;
}

std::size_t gated_activation_num_tasks(const GatedActivationArguments& arguments) {
  return (arguments.num_rows + kRowsOfTask - 1) / kRowsOfTask;
}

void gated_activation_run_task(const GatedActivationArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.num_rows, (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    const float* gate = arguments.gate_up + row * arguments.gate_up_stride;
    kernels.activate(
        arguments.activation, gate, gate + arguments.width,
        static_cast<std::byte*>(arguments.h) + row * arguments.h_stride * size_of(arguments.h_type),
        arguments.h_type, arguments.width);
  }
}

}  // namespace troupe
