// SPDX-License-Identifier: Apache-2.0
// Finds a block's scale and whole numbers. 8 bits: the largest magnitude becomes
// 127. 4 bits: of some scales the one with the least square error. Sums are
// folded in halves from 32 values on and nothing is fused, so every instruction
// set finds the same.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

constexpr int kBlockVectors = static_cast<int>(kBlockInputs / kLanes);
constexpr std::uint32_t kF16Infinity = 0x7C00;

// The least f16 that is not below x >= 0; kF16Infinity if there is none.
inline std::uint32_t f16_at_least(float x) {
  constexpr float kLeastNormal = 0x1p-14F;
  if (x < kLeastNormal) {
    const float steps = x * 0x1p24F;
    const auto whole = static_cast<std::uint32_t>(steps);
    return static_cast<float>(whole) < steps ? whole + 1 : whole;
  }
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x) + 0x1FFFU;
  const std::uint32_t rounded = (bits >> 13) - (112U << 10);
  return rounded < kF16Infinity ? rounded : kF16Infinity;
}

inline float f32_of_scale(std::uint32_t f16) {
  if (f16 < 0x400) return static_cast<float>(f16) * 0x1p-24F;
  return __builtin_bit_cast(float, (f16 + (112U << 10)) << 13);
}

inline VecF nearest_whole(VecF x) {
  const VecF shift = broadcast(12582912.0F);  // 1.5 * 2^23: rounds to an integer
  return (x + shift) - shift;
}

inline void load_block(const float* values, VecF (&block)[kBlockVectors]) {
  for (int i = 0; i < kBlockVectors; ++i) block[i] = load(values + i * kLanes);
}

inline void round_block(const VecF (&values)[kBlockVectors], float inverse_scale, float lowest, float highest,
                        VecF (&whole)[kBlockVectors]) {
  for (int i = 0; i < kBlockVectors; ++i) {
    const VecF nearest = maximum(nearest_whole(values[i] * inverse_scale), broadcast(lowest));
    whole[i] = nearest < broadcast(highest) ? nearest : broadcast(highest);
  }
}

inline float square_error(const VecF (&values)[kBlockVectors], const VecF (&whole)[kBlockVectors],
                          float scale) {
  VecF squares[kBlockVectors];
  for (int i = 0; i < kBlockVectors; ++i) {
    const VecF error = values[i] - whole[i] * scale;
    squares[i] = error * error;
  }
  for (int half = kBlockVectors / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) squares[i] += squares[i + half];
  }
  return sum_of_lanes(squares[0]);
}

inline void store_block(const VecF (&whole)[kBlockVectors], std::uint32_t scale, QuantizedBlock& block) {
  float values[kBlockInputs];
  for (int i = 0; i < kBlockVectors; ++i) store(values + i * kLanes, whole[i]);
  for (std::size_t k = 0; k < kBlockInputs; ++k) block.numbers[k] = static_cast<std::int8_t>(values[k]);
  block.scale = static_cast<std::uint16_t>(scale);
}

// The value of the largest magnitude, the first of equal ones.
inline float extreme_of(const float* values) {
  float extreme = 0.0F;
  for (std::size_t k = 0; k < kBlockInputs; ++k) {
    if (__builtin_fabsf(values[k]) > __builtin_fabsf(extreme)) extreme = values[k];
  }
  return extreme;
}

inline bool quantize_q8(const float* values, float extreme, QuantizedBlock& block) {
  const std::uint32_t scale = f16_at_least(__builtin_fabsf(extreme) / 127.0F);
  if (scale == kF16Infinity) return false;
  if (scale == 0) return true;
  VecF loaded[kBlockVectors], whole[kBlockVectors];
  load_block(values, loaded);
  round_block(loaded, 1.0F / f32_of_scale(scale), -127.0F, 127.0F, whole);
  store_block(whole, scale, block);
  return true;
}

// The extreme becomes one of these; less than -8 or more than 7 is cut, which may
// be worth it for the others.
constexpr float kQ4Extremes[] = {-8.0F, -7.5F, -7.0F, -8.5F, -9.0F, 7.0F, 6.5F, 7.5F, 8.0F};

inline bool quantize_q4(const float* values, float extreme, QuantizedBlock& block) {
  VecF loaded[kBlockVectors], whole[kBlockVectors];
  load_block(values, loaded);
  float least_error = 0.0F;
  bool is_first = true;
  for (const float becomes : kQ4Extremes) {
    const float wanted = extreme / becomes;
    const std::uint32_t magnitude = f16_at_least(__builtin_fabsf(wanted));
    if (magnitude == kF16Infinity) return false;
    if (magnitude == 0) return true;
    const float scale = wanted < 0.0F ? -f32_of_scale(magnitude) : f32_of_scale(magnitude);
    round_block(loaded, 1.0F / scale, -8.0F, 7.0F, whole);
    const float error = square_error(loaded, whole, scale);
    if (!is_first && !(error < least_error)) continue;
    is_first = false;
    least_error = error;
    store_block(whole, magnitude | (wanted < 0.0F ? 0x8000U : 0U), block);
  }
  return true;
}

inline bool quantize(BlockFormat format, const float* values, QuantizedBlock& block) {
  block = {};
  const float extreme = extreme_of(values);
  return format == BlockFormat::kQ8_0 ? quantize_q8(values, extreme, block)
                                      : quantize_q4(values, extreme, block);
}

}  // namespace
}  // namespace troupe
