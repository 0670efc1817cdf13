// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/row_copy.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {
constexpr std::size_t kRowsOfTask = 16;
std::size_t num_tasks_of(std::size_t rows) { return (rows + kRowsOfTask - 1) / kRowsOfTask; }
}  // namespace

std::size_t embed_num_tasks(const EmbedArguments& arguments) {
  return num_tasks_of(arguments.token_ids.size());
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
    kernels.to_f32(arguments.table_type,
                   static_cast<const std::byte*>(arguments.table) +
                       id * arguments.table_stride * size_of(arguments.table_type),
                   x, arguments.width);
    if (arguments.scale == 1.0F) continue;
    for (std::size_t i = 0; i < arguments.width; ++i) x[i] *= arguments.scale;
  }
}

std::size_t gather_rows_num_tasks(const GatherRowsArguments& arguments) {
  return num_tasks_of(arguments.rows.size());
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
