// SPDX-License-Identifier: Apache-2.0
// Products of bf16 rows with bf16 weights on AMX for so few rows that tiles would be almost empty: vectors of
// AVX-512, which read weights at the memory's speed, in the order of operations of amx_tile.hpp.
// Subnormals are zeros by the processor's modes (MXCSR), which are set meanwhile.
#pragma once

#include "gpu/cpu/kernels/vector/amx/amx_tile.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMostFewRows = 3;

// Rounds to nearest even, flushes subnormals, traps nothing.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(kModes); }
  ~FlushedSubnormals() { _mm_setcsr(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
  static constexpr unsigned kModes = 0x9FC0;  // flush to zero, all masked, denormals are zeros
  unsigned before_;
};

// The even and odd products of some units of a block. Rows of a are opened to f32.
template <int kRows, int kVectors, std::size_t kRowStride>
[[gnu::always_inline]] inline void sum_block(const TileOperands& t, std::size_t first, std::size_t num_units,
                                             VecF (&even)[kRows][kVectors], VecF (&odd)[kRows][kVectors]) {
  const std::byte* a = t.a + first * unit_bytes_of_a(Product::kWidened);
  const std::byte* weights = t.panel + first * kUnitBytes;
  for (std::size_t unit = 0; unit < num_units; ++unit) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* lanes = weights + v / kPanelVectors * t.panel_stride +
                               v % kPanelVectors * kLanes * lane_bytes(Product::kWidened);
      __builtin_prefetch(lanes + t.prefetch, 0, 2);
      const VecU pairs = load_u32(lanes);
      const VecF low = low_bf16(pairs), high = high_bf16(pairs);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto* pair = reinterpret_cast<const AliasF*>(a + r * kRowStride);
        even[r][v] = fma(low, broadcast(pair[0]), even[r][v]);
        odd[r][v] = fma(high, broadcast(pair[1]), odd[r][v]);
      }
    }
    a += unit_bytes_of_a(Product::kWidened);
    weights += kUnitBytes;
  }
}

// c stays in memory: a block has 16 units of work for each access.
template <int kRows, int kVectors, std::size_t kRowStride>
[[gnu::noinline]] void multiply_few_tile(const TileOperands& t) {
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  for (std::size_t first = 0; first < t.num_units; first += kTileUnits) {
    const std::size_t left = t.num_units - first;
    VecF even[kRows][kVectors] = {}, odd[kRows][kVectors] = {};
    sum_block<kRows, kVectors, kRowStride>(t, first, left < kTileUnits ? left : kTileUnits, even, odd);
    const bool is_begin = first == 0 && t.starts_at_zero;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        float* const at = c + r * c_stride + v * kLanes;
        // Zeros behind the last unit, added once: they make a zero positive, as in a tile.
        if (left < kTileUnits) even[r][v] += VecF{}, odd[r][v] += VecF{};
        store(at, (is_begin ? VecF{} : load(at)) + (even[r][v] + odd[r][v]));
      }
    }
  }
}

// One row takes four panels, to have several streams from memory; more have more sums for each.
template <int kRows>
constexpr TileShape few_rows_shape() {
  constexpr int kVectors = kRows == 1 ? 8 : 4;
  return {multiply_few_tile<kRows, kVectors, row_stride(kRows)>,
          multiply_few_tile<kRows, kPanelVectors, row_stride(kRows)>,
          kVectors,
          kPanelVectors,
          row_bytes(kRows),
          kUnitBytes};
}

// All rows are one tile. Outside of it nothing is calculated, which the modes could be set too late for.
inline void multiply_few_rows(const MatmulBlock& block) {
  static constexpr TileShape kShapes[kMostFewRows] = {few_rows_shape<1>(), few_rows_shape<2>(),
                                                      few_rows_shape<3>()};
  alignas(64) std::byte rows_of_a[kRowBufferBytes];
  const TileShape& shape = kShapes[block.num_rows - 1];
  const std::size_t num_units = (block.num_inputs + 1) / 2;
  const std::size_t chunk = shape.row_bytes / unit_bytes_of_a(Product::kWidened);
  const FlushedSubnormals modes;
  for (std::size_t unit = 0; unit < num_units; unit += chunk) {
    const std::size_t units = num_units - unit < chunk ? num_units - unit : chunk;
    const std::size_t left = block.num_inputs - 2 * unit;
    const std::size_t count = left < 2 * units ? left : 2 * units;
    for (std::size_t r = 0; r < block.num_rows; ++r)
      copy_row<Product::kWidened>(block, r, 2 * unit, count, 2 * units,
                                  rows_of_a + r * (shape.row_bytes + 64));
    multiply_panels<kMostFewRows>(block, shape,
                                  {.a = rows_of_a,
                                   .panel = block.panels + unit * kUnitBytes,
                                   .num_units = units,
                                   .c = block.c,
                                   .c_stride = block.c_stride,
                                   .starts_at_zero = unit == 0 && block.bias == nullptr},
                                  block.num_rows, num_units * kUnitBytes, true);
  }
}

}  // namespace
}  // namespace troupe
