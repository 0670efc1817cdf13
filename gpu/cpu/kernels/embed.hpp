// SPDX-License-Identifier: Apache-2.0
// Embed (gpu/operators/embed.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

// Writes a row of a table as f32; from any threads.
using OpenRow = std::function<void(std::size_t row, float* values)>;

struct EmbedArguments {
  const void* table = nullptr;           // [vocabulary, width]
  DataType table_type = DataType::kF32;  // kF32, kF16 or kBF16
  std::size_t table_stride = 0;
  OpenRow open_row = {};  // of a table in blocks; none: table has the rows
  std::size_t vocabulary = 0;
  std::span<const std::int32_t> token_ids;
  float* x = nullptr;  // [tokens, width]
  std::size_t x_stride = 0;
  std::size_t width = 0;
  float scale = 1.0F;  // of each element
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t embed_num_tasks(const EmbedArguments& arguments);
void embed_run_task(const EmbedArguments& arguments, std::size_t task);

}  // namespace troupe
