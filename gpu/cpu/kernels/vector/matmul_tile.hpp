// SPDX-License-Identifier: Apache-2.0
// The register tile of all products: some rows of a times some vectors of
// outputs, one accumulator each, K in order. Scores of attention use its units: a
// page of keys has the layout of a panel of weights.
#pragma once

#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

constexpr std::size_t kPanelWidth = 32;
constexpr std::size_t kUnitBytes = 128;  // of 4-byte lanes
constexpr int kPanelVectors = static_cast<int>(kPanelWidth / kLanes);

// The contents of one lane of a unit, 4 bytes or an f16, and how it is multiplied.
enum class Product {
  kF32,      // one f32, times one f32 of a
  kF16,      // one f16, opened, times one f32 of a: the bits of kF32
  kWidened,  // a bf16 pair, times two f32 of a
  kDotBf16,  // a bf16 pair, times a bf16 pair of a (vdpbf16ps)
};

constexpr std::size_t lane_bytes(Product product) { return product == Product::kF16 ? 2 : 4; }
constexpr std::size_t unit_bytes(Product product) { return kPanelWidth * lane_bytes(product); }

// Bytes of a packed row of a that one unit consumes.
constexpr std::size_t unit_bytes_of_a(Product product) { return product == Product::kWidened ? 8 : 4; }

struct TileOperands {
  const std::byte* a = nullptr;      // packed rows, kRowStride bytes apart
  const std::byte* panel = nullptr;  // first unit of the first panel
  std::size_t panel_stride = 0;      // bytes to the same unit of the next panel
  std::size_t num_units = 0;
  std::ptrdiff_t prefetch = 0;  // bytes from a unit to the one to prefetch; 0: none
  float* c = nullptr;
  std::size_t c_stride = 0;     // floats
  bool starts_at_zero = false;  // else it continues from c
};

// A vector of lanes as it is multiplied: f16 are opened.
template <Product kProduct>
inline VecU opened_lanes(const std::byte* lanes) {
  if constexpr (kProduct == Product::kF16) {
    return f32_to_bits(load_f16(reinterpret_cast<const std::uint16_t*>(lanes)));
  } else {
    return load_u32(lanes);
  }
}

template <Product kProduct>
inline void multiply_unit(VecF& sum, VecU weights, const std::byte* a) {
  if constexpr (kProduct == Product::kF32 || kProduct == Product::kF16) {
    sum = fma(bits_to_f32(weights), broadcast(*reinterpret_cast<const AliasF*>(a)), sum);
  } else if constexpr (kProduct == Product::kDotBf16) {
#if defined(__AVX512BF16__)
    const VecU pair = VecU{} + *reinterpret_cast<const AliasU*>(a);
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(pair));
#endif
  }
}

// All units of a tile. kPrefetch: the weights come from memory.
template <Product kProduct, int kRows, int kVectors, std::size_t kRowStride, bool kPrefetch>
[[gnu::always_inline]] inline void multiply_units(const TileOperands& t, VecF (&sums)[kRows][kVectors]) {
  constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  const std::byte* a = t.a;
  const std::byte* panels[kPanels];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) panels[p] = t.panel + p * t.panel_stride;
  const std::ptrdiff_t prefetch = t.prefetch;

  for (std::size_t unit = 0; unit < t.num_units; ++unit) {
    const std::size_t at = unit * unit_bytes(kProduct);
    if constexpr (kPrefetch) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        __builtin_prefetch(panels[p] + at + prefetch, 0, 2);
        if constexpr (unit_bytes(kProduct) > 64) __builtin_prefetch(panels[p] + at + prefetch + 64, 0, 2);
      }
    }
    VecU weights[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = opened_lanes<kProduct>(panels[v / kPanelVectors] + at +
                                          v % kPanelVectors * kLanes * lane_bytes(kProduct));
    }
    if constexpr (kProduct == Product::kWidened) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        VecF wide[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          wide[v] = half == 0 ? low_bf16(weights[v]) : high_bf16(weights[v]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const VecF value = broadcast(*reinterpret_cast<const AliasF*>(a + r * kRowStride + half * 4));
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(wide[v], value, sums[r][v]);
        }
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          multiply_unit<kProduct>(sums[r][v], weights[v], a + r * kRowStride);
        }
      }
    }
    a += unit_bytes_of_a(kProduct);
  }
}

template <Product kProduct, int kRows, int kVectors, std::size_t kRowStride>
[[gnu::noinline]] void multiply_tile(const TileOperands& t) {
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  VecF sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      if (t.starts_at_zero) {
        sums[r][v] = VecF{};
        __builtin_prefetch(c + r * c_stride + v * kLanes, 1);
      } else {
        sums[r][v] = load(c + r * c_stride + v * kLanes);
      }
    }
  }
  if (t.prefetch != 0) {
    multiply_units<kProduct, kRows, kVectors, kRowStride, true>(t, sums);
  } else {
    multiply_units<kProduct, kRows, kVectors, kRowStride, false>(t, sums);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(c + r * c_stride + v * kLanes, sums[r][v]);
  }
}

using TileFunction = void (*)(const TileOperands&);

}  // namespace
}  // namespace troupe
