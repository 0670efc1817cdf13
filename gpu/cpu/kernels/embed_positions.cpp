// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/embed_positions.hpp"

#include <algorithm>
#include <cassert>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kRowsOfTask = 16;

const std::byte* row_of(const EmbeddingTable& table, std::size_t row, std::size_t width) {
  assert(row < table.num_rows);
  return static_cast<const std::byte*>(table.rows) + row * width * size_of(table.type);
}

}  // namespace

std::size_t embed_positions_num_tasks(const EmbedPositionsArguments& arguments) {
  return (arguments.token_ids.size() + kRowsOfTask - 1) / kRowsOfTask;
}

void embed_positions_run_task(const EmbedPositionsArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t width = arguments.width;
  const std::size_t last = std::min(arguments.token_ids.size(), (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    float* x = arguments.x + row * width;
    const auto id = static_cast<std::size_t>(arguments.token_ids[row]);
    if (arguments.token_ids[row] < 0 || id >= arguments.words.num_rows) {
      std::fill_n(x, width, 0.0F);
    } else {
      kernels.to_f32(arguments.words.type, row_of(arguments.words, id, width), x, width);
    }
    if (arguments.types.num_rows > 0) {
      const std::size_t type = arguments.token_types.empty() ? 0 : arguments.token_types[row];
      const auto* of_type = row_of(arguments.types, std::min(type, arguments.types.num_rows - 1), width);
      kernels.add_row(arguments.types.type, of_type, x, width);
    }
    const std::size_t position = arguments.first_position + arguments.token_positions[row];
    kernels.add_row(arguments.positions.type, row_of(arguments.positions, position, width), x, width);
  }
}

}  // namespace troupe
