// SPDX-License-Identifier: Apache-2.0
// The two operators that move rows: embed (rows of a table by token id) and
// gather_rows (the rows of the batch that are sampled).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

struct EmbedArguments {
  const void* table = nullptr;           // [vocabulary, width]
  DataType table_type = DataType::kF32;  // kF32, kF16 or kBF16
  std::size_t table_stride = 0;
  std::size_t vocabulary = 0;
  std::span<const std::int32_t> token_ids;  // an id outside the vocabulary gives a row of zeros
  float* x = nullptr;                       // [tokens, width]
  std::size_t x_stride = 0;
  std::size_t width = 0;
  float scale = 1.0F;  // of each element
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t embed_num_tasks(const EmbedArguments& arguments);
void embed_run_task(const EmbedArguments& arguments, std::size_t task);

struct GatherRowsArguments {
  const float* x = nullptr;  // [tokens, width]
  std::size_t x_stride = 0;
  const float* residual = nullptr;  // [tokens, width] or none
  std::size_t residual_stride = 0;
  std::span<const std::uint32_t> rows;  // which ones
  float* gathered = nullptr;            // [rows.size(), width] = x (+ residual)
  std::size_t gathered_stride = 0;
  std::size_t width = 0;
  Isa isa = best_isa();
};

std::size_t gather_rows_num_tasks(const GatherRowsArguments& arguments);
void gather_rows_run_task(const GatherRowsArguments& arguments, std::size_t task);

}  // namespace troupe
