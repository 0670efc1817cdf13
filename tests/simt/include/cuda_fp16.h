// SPDX-License-Identifier: Apache-2.0
// float16 as CUDA's header has it: conversions round to nearest even, what is
// too large becomes infinite, a NaN becomes 0x7FFF.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

struct alignas(2) __half {
  std::uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) {
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | magnitude << 13);
  // Exponent and mantissa in place; the power of two that is missing also makes
  // subnormal numbers right.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}
inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFU);
  if (std::isnan(value)) return {0x7FFF};
  if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  if (magnitude < 0x1p-14F) {  // subnormal: adding 0.5 rounds at 2^-24
    const auto rounded = std::bit_cast<std::uint32_t>(magnitude + 0.5F) - 0x3F000000U;
    return {static_cast<std::uint16_t>(sign | rounded)};
  }
  const std::uint32_t rebased = std::bit_cast<std::uint32_t>(magnitude) - (112U << 23);
  const std::uint32_t rounded = (rebased + 0xFFFU + (rebased >> 13 & 1U)) >> 13;
  return {static_cast<std::uint16_t>(sign | rounded)};
}
inline __half __float2half(float value) { return __float2half_rn(value); }
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
inline float2 __half22float2(__half2 value) {
  return {__half2float(value.x), __half2float(value.y)};
}
