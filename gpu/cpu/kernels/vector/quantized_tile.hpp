// SPDX-License-Identifier: Apache-2.0
// The register tile of products with weights in blocks: some rows of a times some
// vectors of outputs. Each block is summed on its own, K in order, in whole
// numbers as bf16 or f32, then added to c times its scale. Weights are opened in
// registers for a few rows; for more, a block is opened once into units of bf16
// pairs, which all rows read. Both are exact, so both give the same bits.
#pragma once

#include "gpu/cpu/kernels/matmul/quantized_block.hpp"
#include "gpu/cpu/kernels/vector/matmul_tile.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

constexpr int kGroupUnits = 4;
constexpr int kBlockGroups = static_cast<int>(kBlockInputs / 8);
constexpr int kBlockUnits = kBlockGroups * kGroupUnits;
constexpr std::size_t kOpenedBlockBytes = kBlockUnits * kUnitBytes;
constexpr std::size_t kBytesOfScale = 2;  // of an output

// Both exact in bf16: the high half of a float is all of it.
inline VecU bf16_pair(VecF low, VecF high) {
#if defined(__AVX512F__)
  const auto moved = reinterpret_cast<__m512i>(low);
  return reinterpret_cast<VecU>(
      _mm512_mask_alignr_epi8(reinterpret_cast<__m512i>(high), 0x3333333333333333, moved, moved, 2));
#else
  return (f32_to_bits(low) >> 16) | f32_to_bits(high);
#endif
}

// Weights as they lie behind a block's scales: groups of four units of two k's each.
// v is a vector of the panel's outputs.
struct Q8Weights {
  static constexpr std::size_t kBlockBytes = kQ8BlockBytes;
  static constexpr std::size_t kScaleBytes = kBlockScaleBytes;  // in front of the next block
  static constexpr std::size_t kGroupBytes = 256;               // of four units

  static VecF at(const std::byte* weights, int k, int v) {
    const std::byte* from = weights + k * static_cast<int>(kPanelWidth) + v * static_cast<int>(kLanes);
#if defined(__AVX512F__)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return __builtin_convertvector(reinterpret_cast<VecI>(_mm512_maskz_cvtepi8_epi32(0xFFFF, bytes)), VecF);
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return __builtin_convertvector(reinterpret_cast<VecI>(_mm256_cvtepi8_epi32(bytes)), VecF);
#else
    VecF values{};
    for (std::size_t i = 0; i < kLanes; ++i)
      values[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
    return values;
#endif
  }
  static VecF low(const std::byte* weights, int unit, int v) { return at(weights, 2 * unit, v); }
  static VecF high(const std::byte* weights, int unit, int v) { return at(weights, 2 * unit + 1, v); }
  static VecU pair(const std::byte* weights, int unit, int v) {
    return bf16_pair(low(weights, unit, v), high(weights, unit, v));
  }
};

struct Q4Weights {
  static constexpr std::size_t kBlockBytes = kQ4BlockBytes;
  static constexpr std::size_t kScaleBytes = kBlockScaleBytes;
  static constexpr std::size_t kGroupBytes = 128;

  static VecU lanes(const std::byte* weights, int v) {
    return load_u32(weights + v * static_cast<int>(kLanes) * 4);
  }
  // The nibble from bit `bit` on, its sign extended.
  static VecF nibble(VecU lanes, int bit) {
    return __builtin_convertvector(reinterpret_cast<VecI>(lanes << (28 - bit)) >> 28, VecF);
  }
  static VecF low(const std::byte* weights, int unit, int v) { return nibble(lanes(weights, v), 4 * unit); }
  static VecF high(const std::byte* weights, int unit, int v) {
    return nibble(lanes(weights, v), 4 * unit + 16);
  }
  static VecU pair(const std::byte* weights, int unit, int v) {
#if defined(__AVX512F__)
    // A nibble looks up its bf16. Five bits count, so the table is there twice and
    // the lowest bit of the next nibble does not matter.
    alignas(64) static constexpr std::uint16_t kBf16[32] = {
        0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0xC100, 0xC0E0, 0xC0C0,
        0xC0A0, 0xC080, 0xC040, 0xC000, 0xBF80, 0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0,
        0x40C0, 0x40E0, 0xC100, 0xC0E0, 0xC0C0, 0xC0A0, 0xC080, 0xC040, 0xC000, 0xBF80};
    const VecU shifted = lanes(weights, v) >> (4 * unit);
    return reinterpret_cast<VecU>(_mm512_maskz_permutexvar_epi16(
        0xFFFFFFFF, reinterpret_cast<__m512i>(shifted), _mm512_load_si512(kBf16)));
#else
    return bf16_pair(low(weights, unit, v), high(weights, unit, v));
#endif
  }
};

// A block that was opened.
struct OpenedWeights {
  static constexpr std::size_t kBlockBytes = kOpenedBlockBytes;
  static constexpr std::size_t kScaleBytes = 0;  // they stay where they were
  static constexpr std::size_t kGroupBytes = 4 * kUnitBytes;

  static VecU pair(const std::byte* weights, int unit, int v) {
    return load_u32(weights + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4);
  }
  static VecF low(const std::byte* weights, int unit, int v) { return low_bf16(pair(weights, unit, v)); }
  static VecF high(const std::byte* weights, int unit, int v) { return high_bf16(pair(weights, unit, v)); }
};

template <typename Weights>
inline void open_block(const std::byte* weights, std::byte* opened) {
  for (int group = 0; group < kBlockGroups; ++group) {
#pragma GCC unroll 4
    for (int unit = 0; unit < kGroupUnits; ++unit) {
#pragma GCC unroll 8
      for (int v = 0; v < kPanelVectors; ++v) {
        const VecU pair = Weights::pair(weights, unit, v);
        store(opened + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4,
              bits_to_f32(pair));
      }
    }
    weights += Weights::kGroupBytes;
    opened += OpenedWeights::kGroupBytes;
  }
}

struct QuantizedOperands {
  const std::byte* a = nullptr;        // packed rows, kRowStride bytes apart
  const std::byte* weights = nullptr;  // of the first block of the first panel, behind its scales
  std::size_t panel_stride = 0;        // bytes to the same block of the next panel
  const std::byte* scales = nullptr;   // of the first block of the first panel
  std::size_t scales_panel_stride = 0;
  std::size_t scales_stride = 0;  // bytes from block to block
  std::size_t num_blocks = 0;
  float* c = nullptr;  // sums are added to it
  std::size_t c_stride = 0;
};

// Bytes ahead at which weights are fetched. Opened ones are in the cache.
constexpr std::size_t kWeightsAhead = 6144;

template <typename Weights, int kPanels>
inline void fetch_group(const std::byte* const (&panels)[kPanels]) {
  if constexpr (!__is_same(Weights, OpenedWeights)) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
      for (std::size_t line = 0; line < Weights::kGroupBytes; line += 64) {
        __builtin_prefetch(panels[p] + line + kWeightsAhead, 0, 2);
      }
    }
  }
}

// Two k's of all rows and vectors.
template <typename Weights, Product kProduct, int kRows, int kVectors, std::size_t kRowStride, int kPanels>
[[gnu::always_inline]] inline void multiply_opened_unit(const std::byte* const (&panels)[kPanels], int unit,
                                                        const std::byte* a, VecF (&sums)[kRows][kVectors]) {
  if constexpr (kProduct == Product::kDotBf16) {
    VecU weights[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Weights::pair(panels[v / kPanelVectors], unit, v % kPanelVectors);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        multiply_unit<kProduct>(sums[r][v], weights[v], a + r * kRowStride);
      }
    }
  } else {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      VecF weights[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const std::byte* panel = panels[v / kPanelVectors];
        weights[v] = half == 0 ? Weights::low(panel, unit, v % kPanelVectors)
                               : Weights::high(panel, unit, v % kPanelVectors);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const VecF value = broadcast(*reinterpret_cast<const AliasF*>(a + r * kRowStride + half * 4));
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(weights[v], value, sums[r][v]);
      }
    }
  }
}

// Adds a block's sums times the scales of its outputs.
template <int kRows, int kVectors>
[[gnu::always_inline]] inline void add_scaled(const VecF (&sums)[kRows][kVectors], const std::byte* scales,
                                              std::size_t panel_stride, VecF (&totals)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const std::byte* of_panel = scales + v / kPanelVectors * panel_stride;
    const VecF scale =
        load_f16(reinterpret_cast<const std::uint16_t*>(of_panel) + v % kPanelVectors * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) totals[r][v] = fma(sums[r][v], scale, totals[r][v]);
  }
}

// Totals are kept side by side: rows of c may lie so that their addresses differ by
// multiples of 4 KiB, and a load then waits for the store of another row.
template <typename Weights, Product kProduct, int kRows, int kVectors, std::size_t kRowStride>
[[gnu::noinline]] void multiply_blocks(const QuantizedOperands& t) {
  constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  const std::byte* a = t.a;
  const std::byte* panels[kPanels];
  VecF totals[kRows][kVectors];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) panels[p] = t.weights + p * t.panel_stride;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) totals[r][v] = load(t.c + r * t.c_stride + v * kLanes);
  }
  for (std::size_t block = 0; block < t.num_blocks; ++block) {
    VecF sums[kRows][kVectors] = {};
    for (int group = 0; group < kBlockGroups; ++group) {
      fetch_group<Weights, kPanels>(panels);
#pragma GCC unroll 4
      for (int unit = 0; unit < kGroupUnits; ++unit) {
        multiply_opened_unit<Weights, kProduct, kRows, kVectors, kRowStride, kPanels>(panels, unit, a, sums);
        a += unit_bytes_of_a(kProduct);
      }
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) panels[p] += Weights::kGroupBytes;
    }
    add_scaled<kRows, kVectors>(sums, t.scales + block * t.scales_stride, t.scales_panel_stride, totals);
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) panels[p] += Weights::kScaleBytes;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(t.c + r * t.c_stride + v * kLanes, totals[r][v]);
  }
}

using QuantizedTile = void (*)(const QuantizedOperands&);

}  // namespace
}  // namespace troupe
