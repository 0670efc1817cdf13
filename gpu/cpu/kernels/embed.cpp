// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/embed.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 16;
}

std::size_t embed_num_tasks(const EmbedArguments& arguments) {
  return (arguments.token_ids.size() + kRowsOfTask - 1) / kRowsOfTask;
}

void embed_run_task(const EmbedArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.token_ids.size(), (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    float* x = arguments.x + row * arguments.x_stride;
    const auto id = static_cast<std::size_t>(arguments.token_ids[row]);
    if (arguments.token_ids[row] < 0 || id >= arguments.vocabulary) {
      std::fill_n(x, arguments.width, 0.0F);
      continue;
    }
    if (arguments.open_row) {
      arguments.open_row(id, x);
    } else {
      kernels.to_f32(arguments.table_type,
                     static_cast<const std::byte*>(arguments.table) +
                         id * arguments.table_stride * size_of(arguments.table_type),
                     x, arguments.width);
    }
    if (arguments.scale == 1.0F) continue;
    for (std::size_t i = 0; i < arguments.width; ++i) x[i] *= arguments.scale;
  }
}

}  // namespace troupe
