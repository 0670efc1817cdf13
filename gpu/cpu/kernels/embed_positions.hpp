// SPDX-License-Identifier: Apache-2.0
// EmbedPositions (gpu/operators/embed_positions.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

// Rows of a model's file.
struct EmbeddingTable {
  const void* rows = nullptr;      // [num_rows, width]
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::size_t num_rows = 0;
};

struct EmbedPositionsArguments {
  EmbeddingTable words, positions;
  EmbeddingTable types = {};                       // no rows: none
  std::span<const std::int32_t> token_ids;         // an id outside words gives a word of zeros
  std::span<const std::uint32_t> token_positions;  // as many; with first_position all in positions
  std::span<const std::uint8_t> token_types = {};  // as many, or none: 0; beyond the table: its last
  std::uint32_t first_position = 0;                // the row of position 0
  float* x = nullptr;                              // [tokens, width]
  std::size_t width = 0;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t embed_positions_num_tasks(const EmbedPositionsArguments& arguments);
void embed_positions_run_task(const EmbedPositionsArguments& arguments, std::size_t task);

}  // namespace troupe
