// SPDX-License-Identifier: Apache-2.0
// Cuts a block of a product into register tiles. K is cut into chunks whose
// rows of a are first copied to a small buffer with a fixed row stride (no
// cache aliasing, constant displacements); c carries the sums from one chunk to
// the next, unrounded, so chunking changes no bit.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/matmul_tile.hpp"

namespace troupe {
namespace {

#if defined(__AVX512F__)
constexpr int kMaxTileRows = 14;
#elif defined(__AVX2__)
constexpr int kMaxTileRows = 6;
#else
constexpr int kMaxTileRows = 4;
#endif

// Vectors of outputs a tile of so many rows holds: a few rows take several
// panels, to have enough independent sums and several streams from memory.
constexpr int tile_vectors(int rows) {
#if defined(__AVX512F__)
  return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
#elif defined(__AVX2__)
  return rows <= 2 ? 4 : 2;
#else
  return rows >= 0 ? 2 : 0;
#endif
}

// Bytes of a row of a in the buffer. One row streams its weights with long runs.
constexpr std::size_t row_bytes(int rows) { return rows == 1 ? 16384 : rows <= 3 ? 4096 : 1024; }
constexpr std::size_t row_stride(int rows) { return row_bytes(rows) + 64; }
constexpr std::size_t kMaxFetchedRun = 65536;  // of one panel
constexpr std::size_t kRowBufferBytes = 16384 + 64;
static_assert(kMaxTileRows * row_stride(kMaxTileRows) <= kRowBufferBytes);
static_assert(3 * row_stride(3) <= kRowBufferBytes);

struct TileShape {
  TileFunction multiply;       // tile_vectors(rows) vectors
  TileFunction multiply_last;  // as few as one tile of a panel needs
  int vectors;
  int last_vectors;
  std::size_t row_bytes;
  std::size_t unit_bytes;
};

template <Product kProduct, int kRows>
constexpr TileShape tile_shape() {
  constexpr int kVectors = tile_vectors(kRows);
  constexpr int kLast = kVectors < kPanelVectors ? kVectors : kPanelVectors;
  return {multiply_tile<kProduct, kRows, kVectors, row_stride(kRows)>,
          multiply_tile<kProduct, kRows, kLast, row_stride(kRows)>,
          kVectors,
          kLast,
          row_bytes(kRows),
          unit_bytes(kProduct)};
}

template <Product kProduct>
const TileShape& shape_of(std::size_t rows) {
  static constexpr TileShape kShapes[] = {
    tile_shape<kProduct, 1>(),
    tile_shape<kProduct, 2>(),
    tile_shape<kProduct, 3>(),
    tile_shape<kProduct, 4>(),
#if defined(__AVX2__)
    tile_shape<kProduct, 5>(),
    tile_shape<kProduct, 6>(),
#endif
#if defined(__AVX512F__)
    tile_shape<kProduct, 7>(),
    tile_shape<kProduct, 8>(),
    tile_shape<kProduct, 9>(),
    tile_shape<kProduct, 10>(),
    tile_shape<kProduct, 11>(),
    tile_shape<kProduct, 12>(),
    tile_shape<kProduct, 13>(),
    tile_shape<kProduct, 14>(),
#endif
  };
  return kShapes[rows - 1];
}

// Copies k's [first, first + count) of one row, `padded` of them with zeros
// behind, as f32 or, for kDotBf16, as bf16.
template <Product kProduct>
void copy_row(const MatmulBlock& block, std::size_t row, std::size_t first, std::size_t count,
              std::size_t padded, std::byte* target) {
  const std::size_t offset = row * block.a_stride + first;
  if constexpr (kProduct == Product::kDotBf16) {
    auto* out = reinterpret_cast<std::uint16_t*>(target);
    __builtin_memcpy(out, static_cast<const std::uint16_t*>(block.a) + offset, count * 2);
    for (std::size_t k = count; k < padded; ++k) out[k] = 0;
  } else {
    auto* out = reinterpret_cast<float*>(target);
    if (block.a_type == DataType::kF32) {
      __builtin_memcpy(out, static_cast<const float*>(block.a) + offset, count * 4);
    } else {
      const auto* in = static_cast<const std::uint16_t*>(block.a) + offset;
      for (std::size_t k = 0; k < count; ++k) out[k] = scalar_f32(in[k]);
    }
    for (std::size_t k = count; k < padded; ++k) out[k] = 0.0F;
  }
}

// A tile whose outputs end inside a vector: computed in a full-sized copy of kMostRows.
template <std::size_t kMostRows>
void multiply_ragged(TileFunction multiply, TileOperands t, std::size_t rows, std::size_t columns) {
  float tile[kMostRows * kPanelWidth] = {};
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < columns; ++j) tile[r * kPanelWidth + j] = c[r * c_stride + j];
  }
  t.c = tile;
  t.c_stride = kPanelWidth;
  multiply(t);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < columns; ++j) c[r * c_stride + j] = tile[r * kPanelWidth + j];
  }
}

// Bytes from the tile at `column` to the next one to be read from memory: the
// next panels or, behind the last, the next chunk of the first ones. While one
// tile is multiplied the next is fetched. Long runs fetch from themselves.
inline std::ptrdiff_t bytes_to_next_tile(const MatmulBlock& block, std::size_t column, std::size_t width,
                                         std::size_t chunk_bytes, std::size_t panel_bytes) {
  constexpr std::ptrdiff_t kOwnRun = 2048;
  if (chunk_bytes > kMaxFetchedRun || width < kPanelWidth) return kOwnRun;
  const std::size_t next = column + width;
  if (next < block.num_columns) return static_cast<std::ptrdiff_t>(width / kPanelWidth * panel_bytes);
  return static_cast<std::ptrdiff_t>(chunk_bytes) -
         static_cast<std::ptrdiff_t>(column / kPanelWidth * panel_bytes);
}

// One chunk of K for one row tile, of at most kMostRows, over all panels of the block.
template <std::size_t kMostRows = kMaxTileRows>
void multiply_panels(const MatmulBlock& block, const TileShape& shape, TileOperands t, std::size_t rows,
                     std::size_t panel_bytes, bool is_from_memory) {
  const std::byte* const panels = t.panel;
  float* const c = t.c;
  t.panel_stride = panel_bytes;
  const std::size_t output_bytes = shape.unit_bytes / kPanelWidth;
  const std::size_t chunk_bytes = t.num_units * shape.unit_bytes;
  std::size_t column = 0;
  while (column < block.num_columns) {
    const std::size_t left = block.num_columns - column;
    const bool is_wide = left >= shape.vectors * kLanes;
    const std::size_t width = (is_wide ? shape.vectors : shape.last_vectors) * kLanes;
    t.panel = panels + column / kPanelWidth * panel_bytes + column % kPanelWidth * output_bytes;
    t.c = c + column;
    if (is_from_memory) t.prefetch = bytes_to_next_tile(block, column, width, chunk_bytes, panel_bytes);
    const TileFunction multiply = is_wide ? shape.multiply : shape.multiply_last;
    if (left < width) {
      multiply_ragged<kMostRows>(multiply, t, rows, left);
    } else {
      multiply(t);
    }
    column += width;
  }
}

inline void fill_with_bias(const MatmulBlock& block) {
  for (std::size_t r = 0; r < block.num_rows; ++r) {
    float* row = block.c + r * block.c_stride;
    for (std::size_t j = 0; j < block.num_columns; ++j) {
      row[j] = block.bias == nullptr ? 0.0F : block.bias[j];
    }
  }
}

template <Product kProduct>
void multiply_block(const MatmulBlock& block) {
  constexpr std::size_t kInputsPerUnit = kProduct == Product::kF32 || kProduct == Product::kF16 ? 1 : 2;
  alignas(64) std::byte rows_of_a[kRowBufferBytes];
  const std::size_t num_units = (block.num_inputs + kInputsPerUnit - 1) / kInputsPerUnit;
  const std::size_t panel_bytes = num_units * unit_bytes(kProduct);
  const std::size_t num_tiles = (block.num_rows + kMaxTileRows - 1) / kMaxTileRows;
  const std::size_t tile_rows = num_tiles == 0 ? 1 : (block.num_rows + num_tiles - 1) / num_tiles;
  const std::size_t chunk = shape_of<kProduct>(tile_rows).row_bytes / unit_bytes_of_a(kProduct);

  if (block.bias != nullptr || num_units == 0) fill_with_bias(block);
  for (std::size_t unit = 0; unit < num_units; unit += chunk) {
    const std::size_t units = num_units - unit < chunk ? num_units - unit : chunk;
    const std::size_t first = unit * kInputsPerUnit;
    const std::size_t padded = units * kInputsPerUnit;
    const std::size_t left = block.num_inputs - first;
    const std::size_t count = left < padded ? left : padded;
    for (std::size_t row = 0; row < block.num_rows; row += tile_rows) {
      const std::size_t rows = block.num_rows - row < tile_rows ? block.num_rows - row : tile_rows;
      const TileShape& shape = shape_of<kProduct>(rows);
      // A last, smaller tile may have longer rows in its buffer: it fits.
      for (std::size_t r = 0; r < rows; ++r) {
        copy_row<kProduct>(block, row + r, first, count, padded, rows_of_a + r * (shape.row_bytes + 64));
      }
      multiply_panels(block, shape,
                      {.a = rows_of_a,
                       .panel = block.panels + unit * unit_bytes(kProduct),
                       .num_units = units,
                       .c = block.c + row * block.c_stride,
                       .c_stride = block.c_stride,
                       .starts_at_zero = unit == 0 && block.bias == nullptr},
                      rows, panel_bytes, row == 0);
    }
  }
}

}  // namespace
}  // namespace troupe
