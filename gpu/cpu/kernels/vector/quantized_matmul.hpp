// SPDX-License-Identifier: Apache-2.0
// Cuts a block of a product with quantized weights into register tiles. As many rows
// as a tile has stream the weights; for more, every block is opened once into a
// buffer that stays in a cache.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/matmul_block.hpp"
#include "gpu/cpu/kernels/vector/q8_matmul.hpp"
#include "gpu/cpu/kernels/vector/quantized_tile.hpp"

namespace troupe {
namespace {

// Up to so many rows a tile opens weights in registers. Each tile is code to compile, so
// there are more for the formats that are made here, and for those of Q4_K_M files.
template <BlockFormat kFormat>
constexpr int streamed_rows() {
#if defined(__AVX512F__)
  if (kFormat == BlockFormat::kQ8_0 || kFormat == BlockFormat::kQ4_0) return kMaxTileRows;
  return kFormat == BlockFormat::kQ4_K || kFormat == BlockFormat::kQ6_K ? 6 : 2;
#elif defined(__AVX2__)
  return 2;
#else
  return 1;
#endif
}
constexpr int kOpenedVectors = 2;

// Whole panels, more than one for a few rows.
constexpr int streamed_vectors(int rows) {
  return tile_vectors(rows) < kPanelVectors ? kPanelVectors : tile_vectors(rows);
}

// Bytes of a row of a in the buffer, and the gap behind it against aliasing.
constexpr std::size_t streamed_row_bytes(int rows) { return rows <= 6 ? 4096 : 2048; }
constexpr std::size_t kOpenedRowBytes = 1024;
constexpr std::size_t kRowGap = 64;
constexpr std::size_t kOpenedGroupRows = 9 * kMaxTileRows;

// A tile whose outputs end inside its vectors: computed in a full-sized copy.
template <int kRows, int kVectors>
void multiply_blocks_ragged(QuantizedTile multiply, QuantizedOperands t, std::size_t rows,
                            std::size_t columns) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  float tile[kRows * kWidth] = {};
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(tile + r * kWidth, c + r * c_stride, columns * 4);
  t.c = tile;
  t.c_stride = kWidth;
  multiply(t);
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(c + r * c_stride, tile + r * kWidth, columns * 4);
}

struct QuantizedChunk {
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
};

// Rows of a chunk, zeros behind the last k.
template <Product kProduct>
void copy_rows(const MatmulBlock& block, std::size_t row, std::size_t num_rows, QuantizedChunk chunk,
               std::size_t stride, std::byte* target) {
  const std::size_t first = chunk.first_block * kBlockInputs;
  const std::size_t padded = chunk.num_blocks * kBlockInputs;
  const std::size_t left = block.num_inputs - first;
  const std::size_t count = left < padded ? left : padded;
  for (std::size_t r = 0; r < num_rows; ++r)
    copy_row<kProduct>(block, row + r, first, count, padded, target + r * stride);
}

// The sum of a row's block of a, in an order of its own.
template <Product kProduct>
float sum_of_block(const std::byte* a) {
  VecF sum{};
  for (std::size_t i = 0; i < kBlockInputs; i += kLanes) {
    if constexpr (kProduct == Product::kDotBf16) {
      sum += load_bf16(reinterpret_cast<const std::uint16_t*>(a) + i);
    } else {
      sum += load(a + i * sizeof(float));
    }
  }
  return sum_of_lanes(sum);
}

// [num_rows, kChunk]
template <Product kProduct, std::size_t kChunk>
void sum_blocks(const std::byte* rows_of_a, std::size_t stride, std::size_t num_rows, std::size_t num_blocks,
                float* sums) {
  constexpr std::size_t kBytes = kBlockUnits * unit_bytes_of_a(kProduct);
  for (std::size_t r = 0; r < num_rows; ++r) {
    for (std::size_t i = 0; i < num_blocks; ++i)
      sums[r * kChunk + i] = sum_of_block<kProduct>(rows_of_a + r * stride + i * kBytes);
  }
}

// All panels times a chunk's rows.
template <typename Weights, Product kProduct, int kRows>
void stream_chunk(const MatmulBlock& block, QuantizedOperands t, std::size_t panel_bytes) {
  constexpr int kVectors = streamed_vectors(kRows);
  constexpr std::size_t kStride = streamed_row_bytes(kRows) + kRowGap;
  constexpr std::size_t kPanels = kVectors / kPanelVectors;
  const QuantizedTile wide = multiply_blocks<Weights, kProduct, kRows, kVectors, kStride>;
  const QuantizedTile narrow = multiply_blocks<Weights, kProduct, kRows, kPanelVectors, kStride>;
  t.panel_stride = panel_bytes;
  std::size_t column = 0;
  while (column < block.num_columns) {
    const std::size_t left = block.num_columns - column;
    const bool is_wide = left >= kPanels * kPanelWidth;
    const std::size_t panels = is_wide ? kPanels : 1;
    if (left < kPanelWidth) {
      multiply_blocks_ragged<kRows, kPanelVectors>(narrow, t, kRows, left);
    } else {
      (is_wide ? wide : narrow)(t);
    }
    t.blocks += panels * panel_bytes;
    t.c += panels * kPanelWidth;
    column += panels * kPanelWidth;
  }
}

template <typename Weights, Product kProduct, int kRows>
void stream_rows(const MatmulBlock& block, std::size_t num_blocks) {
  constexpr std::size_t kStride = streamed_row_bytes(kRows) + kRowGap;
  constexpr std::size_t kChunk = streamed_row_bytes(kRows) / (kBlockUnits * unit_bytes_of_a(kProduct));
  static_assert(kChunk % kSuperBlocks == 0);
  alignas(64) std::byte rows_of_a[kRows * kStride];
  float sums_of_a[kRows * kChunk];
  for (std::size_t first = 0; first < num_blocks; first += kChunk) {
    const QuantizedChunk chunk{first, num_blocks - first < kChunk ? num_blocks - first : kChunk};
    copy_rows<kProduct>(block, 0, kRows, chunk, kStride, rows_of_a);
    if constexpr (Weights::kHasMinimum)
      sum_blocks<kProduct, kChunk>(rows_of_a, kStride, kRows, chunk.num_blocks, sums_of_a);
    stream_chunk<Weights, kProduct, kRows>(block,
                                           {.a = rows_of_a,
                                            .sums_of_a = sums_of_a,
                                            .sums_stride = kChunk,
                                            .blocks = block.panels + bytes_of_blocks<Weights>(first),
                                            .num_blocks = chunk.num_blocks,
                                            .c = block.c,
                                            .c_stride = block.c_stride},
                                           bytes_of_blocks<Weights>(num_blocks));
  }
}

// kRows, or fewer.
template <typename Weights, Product kProduct, int kRows>
void multiply_streamed(const MatmulBlock& block, std::size_t num_blocks) {
  if constexpr (kRows > 1) {
    if (block.num_rows < kRows) return multiply_streamed<Weights, kProduct, kRows - 1>(block, num_blocks);
  }
  stream_rows<Weights, kProduct, kRows>(block, num_blocks);
}

template <Product kProduct>
QuantizedTile opened_tile(std::size_t rows) {
  constexpr std::size_t kStride = kOpenedRowBytes + kRowGap;
  static constexpr QuantizedTile kTiles[] = {
    multiply_blocks<OpenedWeights, kProduct, 1, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 2, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 3, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 4, kOpenedVectors, kStride>,
#if defined(__AVX2__)
    multiply_blocks<OpenedWeights, kProduct, 5, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 6, kOpenedVectors, kStride>,
#endif
#if defined(__AVX512F__)
    multiply_blocks<OpenedWeights, kProduct, 7, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 8, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 9, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 10, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 11, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 12, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 13, kOpenedVectors, kStride>,
    multiply_blocks<OpenedWeights, kProduct, 14, kOpenedVectors, kStride>,
#endif
  };
  return kTiles[rows - 1];
}

// All rows of a group times one panel's opened blocks.
template <Product kProduct>
void multiply_opened_panel(QuantizedOperands t, std::size_t num_rows, std::size_t num_columns) {
  constexpr std::size_t kStride = kOpenedRowBytes + kRowGap;
  constexpr std::size_t kWidth = kOpenedVectors * kLanes;
  const QuantizedOperands first = t;
  const std::size_t num_tiles = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
  const std::size_t tile_rows = (num_rows + num_tiles - 1) / num_tiles;
  for (std::size_t row = 0; row < num_rows; row += tile_rows) {
    const std::size_t rows = num_rows - row < tile_rows ? num_rows - row : tile_rows;
    const QuantizedTile multiply = opened_tile<kProduct>(rows);
    t.a = first.a + row * kStride;
    t.sums_of_a = first.sums_of_a + row * t.sums_stride;
    for (std::size_t column = 0; column < num_columns; column += kWidth) {
      t.blocks = first.blocks + column * sizeof(float);
      t.c = first.c + row * t.c_stride + column;
      if (num_columns - column < kWidth) {
        multiply_blocks_ragged<kMaxTileRows, kOpenedVectors>(multiply, t, rows, num_columns - column);
      } else {
        multiply(t);
      }
    }
  }
}

// The same blocks of the next panel are fetched: they are next to be opened.
template <typename Weights>
void open_blocks(const std::byte* blocks, std::size_t num_blocks, std::size_t panel_bytes,
                 std::byte* opened) {
  const std::byte* head = blocks;
  const std::byte* block = blocks;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    if (Weights::kHeadBytes != 0 && i % kSuperBlocks == 0) {
      head = block;
      block += Weights::kHeadBytes;
    }
    for (std::size_t line = 0; line < Weights::kBlockBytes; line += 64)
      __builtin_prefetch(block + panel_bytes + line, 0, 2);
    open_block<Weights>(head, block, opened + i * OpenedWeights::kBlockBytes);
    block += Weights::kBlockBytes;
  }
}

template <typename Weights, Product kProduct>
void multiply_opened(const MatmulBlock& block, std::size_t num_blocks) {
  constexpr std::size_t kStride = kOpenedRowBytes + kRowGap;
  constexpr std::size_t kChunk = kOpenedRowBytes / (kBlockUnits * unit_bytes_of_a(kProduct));
  static_assert(kChunk % kSuperBlocks == 0);
  alignas(64) std::byte rows_of_a[kOpenedGroupRows * kStride];
  alignas(64) std::byte opened[kChunk * OpenedWeights::kBlockBytes];
  float sums_of_a[kOpenedGroupRows * kChunk];
  const std::size_t panel_bytes = bytes_of_blocks<Weights>(num_blocks);
  for (std::size_t row = 0; row < block.num_rows; row += kOpenedGroupRows) {
    const std::size_t rows =
        block.num_rows - row < kOpenedGroupRows ? block.num_rows - row : kOpenedGroupRows;
    for (std::size_t first = 0; first < num_blocks; first += kChunk) {
      const QuantizedChunk chunk{first, num_blocks - first < kChunk ? num_blocks - first : kChunk};
      copy_rows<kProduct>(block, row, rows, chunk, kStride, rows_of_a);
      if constexpr (Weights::kHasMinimum)
        sum_blocks<kProduct, kChunk>(rows_of_a, kStride, rows, chunk.num_blocks, sums_of_a);
      for (std::size_t panel = 0; panel * kPanelWidth < block.num_columns; ++panel) {
        open_blocks<Weights>(block.panels + panel * panel_bytes + bytes_of_blocks<Weights>(first),
                             chunk.num_blocks, panel_bytes, opened);
        const std::size_t left = block.num_columns - panel * kPanelWidth;
        multiply_opened_panel<kProduct>({.a = rows_of_a,
                                         .sums_of_a = sums_of_a,
                                         .sums_stride = kChunk,
                                         .blocks = opened,
                                         .num_scales = Weights::kScales,
                                         .has_minimum = Weights::kHasMinimum,
                                         .num_blocks = chunk.num_blocks,
                                         .c = block.c + row * block.c_stride + panel * kPanelWidth,
                                         .c_stride = block.c_stride},
                                        rows, left < kPanelWidth ? left : kPanelWidth);
      }
    }
  }
}

template <BlockFormat kFormat, Product kProduct>
void multiply_quantized(const MatmulBlock& block) {
  using Weights = BlockWeights<kFormat>;
  constexpr int kStreamedRows = streamed_rows<kFormat>();
  const std::size_t num_blocks = (block.num_inputs + kBlockInputs - 1) / kBlockInputs;
  fill_with_bias(block);
  if (block.num_rows == 0) return;
  if (block.num_rows <= kStreamedRows) {
    multiply_streamed<Weights, kProduct, kStreamedRows>(block, num_blocks);
  } else {
    multiply_opened<Weights, kProduct>(block, num_blocks);
  }
}

template <BlockFormat kFormat>
void multiply_quantized(const MatmulBlock& block) {
  if (block.q8_rows.numbers != nullptr) return multiply_q8_rows<kFormat>(block);
#if defined(__AVX512BF16__)
  if (block.a_type != DataType::kBF16) return kAvx512Kernels.multiply(block);
  multiply_quantized<kFormat, Product::kDotBf16>(block);
#else
  multiply_quantized<kFormat, Product::kWidened>(block);
#endif
}

inline void multiply_plain(const MatmulBlock& block) {
#if defined(__AVX512BF16__)
  const bool has_pairs = block.format == BlockFormat::kBF16 && block.a_type == DataType::kBF16;
  return has_pairs ? multiply_block<Product::kDotBf16>(block) : kAvx512Kernels.multiply(block);
#else
  if (block.format == BlockFormat::kF32) return multiply_block<Product::kF32>(block);
  if (block.format == BlockFormat::kF16) return multiply_block<Product::kF16>(block);
  multiply_block<Product::kWidened>(block);
#endif
}

// Any product: the kernel of the table.
inline void multiply_any(const MatmulBlock& block) {
  switch (block.format) {
    case BlockFormat::kQ8_0: return multiply_quantized<BlockFormat::kQ8_0>(block);
    case BlockFormat::kQ4_0: return multiply_quantized<BlockFormat::kQ4_0>(block);
    case BlockFormat::kQ4_1: return multiply_quantized<BlockFormat::kQ4_1>(block);
    case BlockFormat::kQ5_0: return multiply_quantized<BlockFormat::kQ5_0>(block);
    case BlockFormat::kQ5_1: return multiply_quantized<BlockFormat::kQ5_1>(block);
    case BlockFormat::kQ4_K: return multiply_quantized<BlockFormat::kQ4_K>(block);
    case BlockFormat::kQ5_K: return multiply_quantized<BlockFormat::kQ5_K>(block);
    case BlockFormat::kQ6_K: return multiply_quantized<BlockFormat::kQ6_K>(block);
    case BlockFormat::kIq4Nl: return multiply_quantized<BlockFormat::kIq4Nl>(block);
    case BlockFormat::kMxfp4: return multiply_quantized<BlockFormat::kMxfp4>(block);
    case BlockFormat::kF32:
    case BlockFormat::kF16:
    case BlockFormat::kBF16: return multiply_plain(block);
  }
}

}  // namespace
}  // namespace troupe
