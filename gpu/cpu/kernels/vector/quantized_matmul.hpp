// SPDX-License-Identifier: Apache-2.0
// Cuts a block of a product with quantized weights into register tiles. As many rows
// as a tile has stream the weights; for more, every block is opened once into a
// buffer that stays in a cache.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/matmul_block.hpp"
#include "gpu/cpu/kernels/vector/quantized_tile.hpp"

namespace troupe {
namespace {

#if defined(__AVX512F__)
constexpr int kStreamedRows = kMaxTileRows;
#elif defined(__AVX2__)
constexpr int kStreamedRows = 2;
#else
constexpr int kStreamedRows = 1;
#endif
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

// All panels times a chunk's rows.
template <typename Weights, Product kProduct, int kRows>
void stream_chunk(const MatmulBlock& block, QuantizedOperands t, std::size_t panel_bytes) {
  constexpr int kVectors = streamed_vectors(kRows);
  constexpr std::size_t kStride = streamed_row_bytes(kRows) + kRowGap;
  constexpr std::size_t kPanels = kVectors / kPanelVectors;
  const QuantizedTile wide = multiply_blocks<Weights, kProduct, kRows, kVectors, kStride>;
  const QuantizedTile narrow = multiply_blocks<Weights, kProduct, kRows, kPanelVectors, kStride>;
  t.panel_stride = t.scales_panel_stride = panel_bytes;
  t.scales_stride = Weights::kBlockBytes;
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
    t.scales += panels * panel_bytes;
    t.weights += panels * panel_bytes;
    t.c += panels * kPanelWidth;
    column += panels * kPanelWidth;
  }
}

template <typename Weights, Product kProduct, int kRows>
void stream_rows(const MatmulBlock& block, std::size_t num_blocks) {
  constexpr std::size_t kStride = streamed_row_bytes(kRows) + kRowGap;
  constexpr std::size_t kChunk = streamed_row_bytes(kRows) / (kBlockUnits * unit_bytes_of_a(kProduct));
  alignas(64) std::byte rows_of_a[kRows * kStride];
  for (std::size_t first = 0; first < num_blocks; first += kChunk) {
    const QuantizedChunk chunk{first, num_blocks - first < kChunk ? num_blocks - first : kChunk};
    copy_rows<kProduct>(block, 0, kRows, chunk, kStride, rows_of_a);
    const std::byte* const scales = block.panels + first * Weights::kBlockBytes;
    stream_chunk<Weights, kProduct, kRows>(block,
                                           {.a = rows_of_a,
                                            .weights = scales + kBlockScaleBytes,
                                            .scales = scales,
                                            .num_blocks = chunk.num_blocks,
                                            .c = block.c,
                                            .c_stride = block.c_stride},
                                           num_blocks * Weights::kBlockBytes);
  }
}

template <typename Weights, Product kProduct>
void multiply_streamed(const MatmulBlock& block, std::size_t num_blocks) {
  using Stream = void (*)(const MatmulBlock&, std::size_t);
  static constexpr Stream kStreams[] = {
    stream_rows<Weights, kProduct, 1>,
#if defined(__AVX2__)
    stream_rows<Weights, kProduct, 2>,
#endif
#if defined(__AVX512F__)
    stream_rows<Weights, kProduct, 3>,
    stream_rows<Weights, kProduct, 4>,
    stream_rows<Weights, kProduct, 5>,
    stream_rows<Weights, kProduct, 6>,
    stream_rows<Weights, kProduct, 7>,
    stream_rows<Weights, kProduct, 8>,
    stream_rows<Weights, kProduct, 9>,
    stream_rows<Weights, kProduct, 10>,
    stream_rows<Weights, kProduct, 11>,
    stream_rows<Weights, kProduct, 12>,
    stream_rows<Weights, kProduct, 13>,
    stream_rows<Weights, kProduct, 14>,
#endif
  };
  static_assert(sizeof(kStreams) / sizeof(kStreams[0]) == kStreamedRows);
  kStreams[block.num_rows - 1](block, num_blocks);
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
    for (std::size_t column = 0; column < num_columns; column += kWidth) {
      t.weights = first.weights + column * sizeof(float);
      t.scales = first.scales + column * kBytesOfScale;
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
  for (std::size_t i = 0; i < num_blocks; ++i) {
    const std::byte* block = blocks + i * Weights::kBlockBytes;
    for (std::size_t line = 0; line < Weights::kBlockBytes; line += 64)
      __builtin_prefetch(block + panel_bytes + line, 0, 2);
    open_block<Weights>(block + kBlockScaleBytes, opened + i * kOpenedBlockBytes);
  }
}

template <typename Weights, Product kProduct>
void multiply_opened(const MatmulBlock& block, std::size_t num_blocks) {
  constexpr std::size_t kStride = kOpenedRowBytes + kRowGap;
  constexpr std::size_t kChunk = kOpenedRowBytes / (kBlockUnits * unit_bytes_of_a(kProduct));
  alignas(64) std::byte rows_of_a[kOpenedGroupRows * kStride];
  alignas(64) std::byte opened[kChunk * kOpenedBlockBytes];
  for (std::size_t row = 0; row < block.num_rows; row += kOpenedGroupRows) {
    const std::size_t rows =
        block.num_rows - row < kOpenedGroupRows ? block.num_rows - row : kOpenedGroupRows;
    for (std::size_t first = 0; first < num_blocks; first += kChunk) {
      const QuantizedChunk chunk{first, num_blocks - first < kChunk ? num_blocks - first : kChunk};
      copy_rows<kProduct>(block, row, rows, chunk, kStride, rows_of_a);
      for (std::size_t panel = 0; panel * kPanelWidth < block.num_columns; ++panel) {
        const std::byte* scales = block.panels + (panel * num_blocks + first) * Weights::kBlockBytes;
        open_blocks<Weights>(scales, chunk.num_blocks, num_blocks * Weights::kBlockBytes, opened);
        const std::size_t left = block.num_columns - panel * kPanelWidth;
        multiply_opened_panel<kProduct>({.a = rows_of_a,
                                         .weights = opened,
                                         .scales = scales,
                                         .scales_stride = Weights::kBlockBytes,
                                         .num_blocks = chunk.num_blocks,
                                         .c = block.c + row * block.c_stride + panel * kPanelWidth,
                                         .c_stride = block.c_stride},
                                        rows, left < kPanelWidth ? left : kPanelWidth);
      }
    }
  }
}

template <typename Weights, Product kProduct>
void multiply_quantized(const MatmulBlock& block) {
  const std::size_t num_blocks = (block.num_inputs + kBlockInputs - 1) / kBlockInputs;
  fill_with_bias(block);
  if (block.num_rows == 0) return;
  if (block.num_rows <= kStreamedRows) {
    multiply_streamed<Weights, kProduct>(block, num_blocks);
  } else {
    multiply_opened<Weights, kProduct>(block, num_blocks);
  }
}

template <typename Weights>
void multiply_quantized(const MatmulBlock& block) {
#if defined(__AVX512BF16__)
  if (block.a_type == DataType::kBF16) return multiply_quantized<Weights, Product::kDotBf16>(block);
#endif
  multiply_quantized<Weights, Product::kWidened>(block);
}

// Any product: the kernel of the table.
inline void multiply_any(const MatmulBlock& block) {
  if (block.quantization == Quantization::kQ8) return multiply_quantized<Q8Weights>(block);
  if (block.quantization == Quantization::kQ4) return multiply_quantized<Q4Weights>(block);
  multiply(block);
}

}  // namespace
}  // namespace troupe
