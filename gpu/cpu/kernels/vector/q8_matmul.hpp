// SPDX-License-Identifier: Apache-2.0
// Cuts a block of a product of rows in 8 bits (matmul/q8_rows.hpp) into register tiles. Weights of 4
// bits are opened in registers for any number of rows, other formats for a few; for more, the blocks of a
// super-block are opened once into a buffer that stays in the cache. Codes in that buffer have 8 bits, so
// where sums of 16 bits are quicker than those of 32, weights of 5 and 6 bits stay in registers, too. All
// give the same bits, and a row has the same bits in every batch.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/matmul_block.hpp"
#include "gpu/cpu/kernels/vector/q8_tile.hpp"

namespace troupe {
namespace {

// Up to so many rows a format is opened in registers. Each tile is code to compile, so there are more for
// Q4_K_M files.
constexpr std::size_t rows_in_registers(BlockFormat format) {
  const std::size_t bits = panel_blocks(format).bits;
  if (bits == 4 || (kSumsIn16Bits && bits < 8)) return SIZE_MAX;
  return format == BlockFormat::kQ6_K ? 4 * kMaxQ8Rows : 2;
}

// One panel after the other is read from memory in a run for few rows. For more, a chunk of K is
// multiplied by all panels, so that its rows stay in the second-level cache.
constexpr std::size_t kMostStreamingRows = 32;

// Blocks of a panel in a chunk of K. They and their rows stay in the second-level cache while tiles of rows
// take turns; half as many would fit the first, but c would be read and written twice as often, which costs
// more.
constexpr std::size_t kQ8ChunkBlocks = 64;
constexpr std::size_t kOpenedQ8Blocks = kSuperBlocks;

// A tile whose outputs end inside its vectors: computed in a full-sized copy.
inline void multiply_q8_ragged(Q8Tile multiply, Q8Operands t, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kWidth = kQ8Vectors * kLanes;
  float tile[kMaxQ8Rows * kWidth] = {};
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(tile + r * kWidth, c + r * c_stride, columns * 4);
  t.c = tile;
  t.c_stride = kWidth;
  multiply(t);
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(c + r * c_stride, tile + r * kWidth, columns * 4);
}

struct Q8Chunk {
  std::size_t panel = 0;
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
};

// All rows times a panel's blocks of a chunk.
template <typename Weights, int kMostRows>
void multiply_q8_panel(const MatmulBlock& block, const Q8Chunk& chunk, const std::byte* weights,
                       bool has_minimum) {
  constexpr std::size_t kWidth = kQ8Vectors * kLanes;
  const std::size_t num_tiles = (block.num_rows + kMostRows - 1) / kMostRows;
  const std::size_t tile_rows = (block.num_rows + num_tiles - 1) / num_tiles;
  const std::size_t first_column = chunk.panel * kPanelWidth;
  const std::size_t left = block.num_columns - first_column;
  const std::size_t num_columns = left < kPanelWidth ? left : kPanelWidth;
  for (std::size_t row = 0; row < block.num_rows; row += tile_rows) {
    const std::size_t rows = block.num_rows - row < tile_rows ? block.num_rows - row : tile_rows;
    const Q8Tile multiply = q8_tile<Weights, kMostRows>(rows);
    const std::size_t at = chunk.first_block * block.q8_rows.num_rows + row;
    Q8Operands tile{.rows = {.numbers = block.q8_rows.numbers + at * kBlockInputs,
                             .blocks = block.q8_rows.blocks + at,
                             .num_rows = block.q8_rows.num_rows},
                    .weights = weights,
                    .has_minimum = has_minimum,
                    .num_blocks = chunk.num_blocks,
                    .c_stride = block.c_stride};
    for (std::size_t column = 0; column < num_columns; column += kWidth) {
      tile.first_vector = static_cast<int>(column / kLanes);
      tile.c = block.c + row * block.c_stride + first_column + column;
      if (num_columns - column < kWidth) {
        multiply_q8_ragged(multiply, tile, rows, num_columns - column);
      } else {
        multiply(tile);
      }
    }
  }
}

// A panel's blocks of one super-block at most; those that are opened next are fetched.
template <BlockFormat kFormat>
void open_q8_blocks(const std::byte* head, std::size_t num_blocks, std::size_t bytes_ahead,
                    std::byte* opened) {
  using Weights = BlockWeights<kFormat>;
  const std::byte* block = head + Weights::kHeadBytes;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    for (std::size_t line = 0; line < Weights::kBlockBytes; line += 64)
      __builtin_prefetch(block + bytes_ahead + line, 0, 2);
    open_codes<kFormat>(head, block, opened + i * OpenedCodes<Weights::kScales>::kBlockBytes);
    block += Weights::kBlockBytes;
  }
}

// Calls multiply for chunks of K, panel after panel within each.
template <typename Multiply>
void for_each_q8_chunk(const MatmulBlock& block, std::size_t panels_at_once, std::size_t chunk_blocks,
                       Multiply multiply) {
  const std::size_t num_blocks = (block.num_inputs + kBlockInputs - 1) / kBlockInputs;
  const std::size_t num_panels = (block.num_columns + kPanelWidth - 1) / kPanelWidth;
  for (std::size_t panel = 0; panel < num_panels; panel += panels_at_once) {
    const std::size_t end = num_panels - panel < panels_at_once ? num_panels : panel + panels_at_once;
    for (std::size_t first = 0; first < num_blocks; first += chunk_blocks) {
      const std::size_t count = num_blocks - first < chunk_blocks ? num_blocks - first : chunk_blocks;
      for (std::size_t p = panel; p < end; ++p) multiply(Q8Chunk{p, first, count});
    }
  }
}

template <BlockFormat kFormat>
void multiply_q8_rows(const MatmulBlock& block) {
  using Weights = BlockWeights<kFormat>;
  fill_with_bias(block);
  if (block.num_rows == 0) return;
  const std::size_t num_blocks = (block.num_inputs + kBlockInputs - 1) / kBlockInputs;
  const std::size_t panel_bytes = bytes_of_blocks<Weights>(num_blocks);
  const bool is_streamed = block.num_rows <= kMostStreamingRows;
  const std::size_t panels_at_once = is_streamed ? 1 : SIZE_MAX;
  const auto weights_of = [&](const Q8Chunk& chunk) {
    return block.panels + chunk.panel * panel_bytes + bytes_of_blocks<Weights>(chunk.first_block);
  };
  constexpr std::size_t kMost = rows_in_registers(kFormat);
  if (block.num_rows <= kMost) {
    constexpr int kMostRows = kMost < kMaxQ8Rows ? static_cast<int>(kMost) : kMaxQ8Rows;
    const std::size_t chunk_blocks = block.num_rows <= kMostRows ? num_blocks : kQ8ChunkBlocks;
    for_each_q8_chunk(block, panels_at_once, chunk_blocks, [&](const Q8Chunk& chunk) {
      multiply_q8_panel<PackedCodes<kFormat>, kMostRows>(block, chunk, weights_of(chunk), false);
    });
  } else {
    using Opened = OpenedCodes<Weights::kScales>;
    alignas(64) std::byte opened[kOpenedQ8Blocks * Opened::kBlockBytes];
    for_each_q8_chunk(block, panels_at_once, kOpenedQ8Blocks, [&](const Q8Chunk& chunk) {
      open_q8_blocks<kFormat>(weights_of(chunk), chunk.num_blocks, is_streamed ? kWeightsAhead : panel_bytes,
                              opened);
      multiply_q8_panel<Opened, kMaxQ8Rows>(block, chunk, opened, Weights::kHasMinimum);
    });
  }
}

}  // namespace
}  // namespace troupe
