// SPDX-License-Identifier: Apache-2.0
// The tile of products of bf16 rows with bf16 weights on AMX (TDPBF16PS), and the order of operations
// that all rows have on this set, those that no tile computes included (few_rows.hpp):
//
//   c = bias or 0; for each block of 32 inputs, those behind K being zeros:
//     even = odd = +0; for each pair (a[k], a[k + 1]) of the block, k in order:
//       even = fma(a[k], w[k], even)
//       odd = fma(a[k + 1], w[k + 1], odd)
//     c = c + (even + odd)
//
// Each operation is in f32, rounded to nearest even; subnormal operands are zeros, and subnormal results
// become zeros of their sign. A product of two bf16 has at most 16 significant bits, so it is exact in f32
// and a product that is rounded first is the same but where it is subnormal or too large: fused, its value
// counts in a sum that is large enough, and 2^128 less 2^127 is finite. So fma it is, as in the instruction.
// Infinities follow the same rules; a NaN is a NaN everywhere, but its payload is not defined.
#pragma once

#include "gpu/cpu/kernels/vector/matmul_block.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTileUnits = 16;  // of a block: pairs of inputs
constexpr std::size_t kTileBlockBytes = kTileUnits * kUnitBytes;
constexpr std::size_t kTileRowBytes = 64;  // of a block, in a row of a

// A tile's four sums are two and two: those of its first 16 rows with the halves of a panel, and the last
// two.
enum class SecondSums {
  kNone,
  kRows,   // the next 16 rows
  kPanel,  // the same rows, the next panel
};

// Palette 1, as LDTILECFG takes it.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t num_rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

// GCC's intrinsics name too few bytes as read, or none: what was stored before them must be in memory.
inline void finish_stores() { asm volatile("" ::: "memory"); }

// Tiles 0 to 3 are sums, 4 and 5 rows of a, 6 and 7 the halves of a panel.
inline void configure_tiles(std::size_t first_rows, std::size_t second_rows) {
  TileConfiguration configuration;
  constexpr int kFirst[] = {0, 1, 4}, kSecond[] = {2, 3, 5}, kPanel[] = {6, 7};
  for (const int tile : kFirst) configuration.num_rows[tile] = static_cast<std::uint8_t>(first_rows);
  for (const int tile : kSecond) configuration.num_rows[tile] = static_cast<std::uint8_t>(second_rows);
  for (const int tile : kPanel) configuration.num_rows[tile] = kTileUnits;
  finish_stores();
  _tile_loadconfig(&configuration);
}

// Adds a block's products: `a` is its part of the first row, `weights` its first unit of the first panel.
template <SecondSums kSecond, std::size_t kRowStride>
[[gnu::always_inline]] inline void add_tile_block(const std::byte* a, const std::byte* weights,
                                                  const std::byte* second_weights) {
  _tile_loadd(4, a, kRowStride);
  _tile_loadd(6, weights, kUnitBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, weights + kTileRowBytes, kUnitBytes);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (kSecond == SecondSums::kRows) {
    _tile_loadd(5, a + kTileRows * kRowStride, kRowStride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  } else if constexpr (kSecond == SecondSums::kPanel) {
    _tile_loadd(6, second_weights, kUnitBytes);
    _tile_dpbf16ps(2, 4, 6);
    _tile_loadd(7, second_weights + kTileRowBytes, kUnitBytes);
    _tile_dpbf16ps(3, 4, 7);
  }
}

template <SecondSums kSecond>
[[gnu::always_inline]] inline void begin_tile_sums(const TileOperands& t) {
  const auto stride = static_cast<long>(t.c_stride * sizeof(float));
  if (t.starts_at_zero) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kSecond != SecondSums::kNone) _tile_zero(2);
    if constexpr (kSecond != SecondSums::kNone) _tile_zero(3);
    return;
  }
  _tile_loadd(0, t.c, stride);
  _tile_loadd(1, t.c + kTileRows, stride);
  if constexpr (kSecond != SecondSums::kNone) {
    const float* second = t.c + (kSecond == SecondSums::kRows ? kTileRows * t.c_stride : kPanelWidth);
    _tile_loadd(2, second, stride);
    _tile_loadd(3, second + kTileRows, stride);
  }
}

template <SecondSums kSecond>
[[gnu::always_inline]] inline void store_tile_sums(const TileOperands& t) {
  const auto stride = static_cast<long>(t.c_stride * sizeof(float));
  _tile_stored(0, t.c, stride);
  _tile_stored(1, t.c + kTileRows, stride);
  if constexpr (kSecond != SecondSums::kNone) {
    float* second = t.c + (kSecond == SecondSums::kRows ? kTileRows * t.c_stride : kPanelWidth);
    _tile_stored(2, second, stride);
    _tile_stored(3, second + kTileRows, stride);
  }
}

// A panel's last units, zeros behind them to a whole block: another panel's weights may be NaN.
inline void copy_last_units(const std::byte* units, std::size_t num_units, std::byte* block) {
  __builtin_memcpy(block, units, num_units * kUnitBytes);
  __builtin_memset(block + num_units * kUnitBytes, 0, kTileBlockBytes - num_units * kUnitBytes);
}

// Rows of a have zeros behind their last unit to a whole block.
template <SecondSums kSecond, std::size_t kRowStride>
[[gnu::noinline]] void multiply_amx_tile(const TileOperands& t) {
  finish_stores();
  begin_tile_sums<kSecond>(t);
  const std::byte* a = t.a;
  const std::byte* weights = t.panel;
  const std::size_t panels = kSecond == SecondSums::kPanel ? 2 : 1;
  for (std::size_t block = 0; block < t.num_units / kTileUnits; ++block) {
    for (std::size_t panel = 0; t.prefetch != 0 && panel < panels; ++panel) {
      const std::byte* next = weights + panel * t.panel_stride + t.prefetch;
      for (std::size_t line = 0; line < kTileBlockBytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    }
    add_tile_block<kSecond, kRowStride>(a, weights, weights + t.panel_stride);
    a += kTileRowBytes;
    weights += kTileBlockBytes;
  }
  if (const std::size_t num_units = t.num_units % kTileUnits; num_units != 0) {
    alignas(64) std::byte last[kTileBlockBytes], second_last[kTileBlockBytes];
    copy_last_units(weights, num_units, last);
    if constexpr (kSecond == SecondSums::kPanel)
      copy_last_units(weights + t.panel_stride, num_units, second_last);
    finish_stores();
    add_tile_block<kSecond, kRowStride>(a, last, second_last);
  }
  store_tile_sums<kSecond>(t);
}

}  // namespace
}  // namespace troupe
