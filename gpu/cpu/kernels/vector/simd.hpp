// SPDX-License-Identifier: Apache-2.0
// Vectors as wide as the instruction set this file is compiled for. Included
// only by vector/kernels_<isa>.cpp; the unnamed namespace keeps every function
// private to that instruction set, so the linker cannot mix them up. No
// function templates of the standard library in here, for the same reason.
//
// Products and sums are never contracted behind our back (-ffp-contract=off):
// fma() is the only fused operation, so the same source gives the same bits in
// every template instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace troupe {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr std::size_t kLanes = 8;
#else
constexpr std::size_t kLanes = 4;
#endif

typedef float VecF __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t VecI __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t VecU __attribute__((vector_size(kLanes * 4)));
typedef std::uint16_t VecH __attribute__((vector_size(kLanes * 2)));
typedef float UnalignedF __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef std::uint32_t UnalignedU __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef std::uint16_t UnalignedH __attribute__((vector_size(kLanes * 2), aligned(1), may_alias));
typedef float AliasF __attribute__((aligned(1), may_alias));
typedef std::uint32_t AliasU __attribute__((aligned(1), may_alias));

#if defined(__AVX512F__)
constexpr VecI kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
constexpr VecI kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr VecI kLaneIndex = {0, 1, 2, 3};
#endif

inline VecF load(const void* from) { return *static_cast<const UnalignedF*>(from); }
inline VecU load_u32(const void* from) { return *static_cast<const UnalignedU*>(from); }
inline void store(void* to, VecF value) { *static_cast<UnalignedF*>(to) = value; }

// Minus zero is exact for every value, so nothing is left of it but the broadcast.
inline VecF broadcast(float value) { return value - VecF{}; }
inline VecF bits_to_f32(VecU bits) { return reinterpret_cast<VecF>(bits); }
inline VecU f32_to_bits(VecF value) { return reinterpret_cast<VecU>(value); }

inline VecF fma(VecF a, VecF b, VecF c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline VecF maximum(VecF a, VecF b) { return a > b ? a : b; }

// The first `count` lanes, zeros behind; touches no memory beyond them.
inline VecF load_first(const float* from, std::size_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), from);
#else
  VecF value{};
  for (std::size_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
#endif
}
inline void store_first(float* to, VecF value, std::size_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1U), value);
#else
  for (std::size_t i = 0; i < count; ++i) to[i] = value[i];
#endif
}

// Lane i of the result is lane (i + kDistance) % kLanes.
template <int kDistance, int... kLane>
VecF rotate_lanes(VecF value, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(value, value, ((kLane + kDistance) % kLanes)...);
}
template <int kDistance>
VecF rotate_lanes(VecF value) {
  return rotate_lanes<kDistance>(value, std::make_integer_sequence<int, kLanes>{});
}

// Half of the lanes even[0], odd[0], even[1], odd[1], …: the first or the second half.
template <bool kSecond, int... kLane>
VecF interleave_lanes(VecF even, VecF odd, std::integer_sequence<int, kLane...>) {
  constexpr int kFirst = kSecond ? kLanes / 2 : 0;
  return __builtin_shufflevector(even, odd, (kFirst + kLane / 2 + kLane % 2 * static_cast<int>(kLanes))...);
}
template <bool kSecond>
VecF interleave_lanes(VecF even, VecF odd) {
  return interleave_lanes<kSecond>(even, odd, std::make_integer_sequence<int, kLanes>{});
}

// Halves are folded onto each other: one order of summation for every caller.
template <int kDistance = kLanes / 2>
VecF sum_in_all_lanes(VecF value) {
  value += rotate_lanes<kDistance>(value);
  if constexpr (kDistance > 1) return sum_in_all_lanes<kDistance / 2>(value);
  return value;
}
inline float sum_of_lanes(VecF value) { return sum_in_all_lanes(value)[0]; }

template <int kDistance = kLanes / 2>
VecF max_in_all_lanes(VecF value) {
  value = maximum(value, rotate_lanes<kDistance>(value));
  if constexpr (kDistance > 1) return max_in_all_lanes<kDistance / 2>(value);
  return value;
}

// ---- bf16 ----

inline VecF load_bf16(const std::uint16_t* from) {
  const VecH bits = *reinterpret_cast<const UnalignedH*>(from);
  return bits_to_f32(__builtin_convertvector(bits, VecU) << 16);
}
// The low halves, the high halves of a vector of bf16 pairs.
inline VecF low_bf16(VecU pairs) { return bits_to_f32(pairs << 16); }
inline VecF high_bf16(VecU pairs) { return bits_to_f32(pairs & 0xFFFF0000U); }

// Round to nearest even; NaN keeps its sign and becomes quiet.
inline VecU rounded_bf16(VecF value) {
  const VecU bits = f32_to_bits(value);
  const VecU rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const VecU quiet = (bits >> 16) | 0x40U;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded;
}
inline void store_bf16(std::uint16_t* to, VecF value) {
  *reinterpret_cast<UnalignedH*>(to) = __builtin_convertvector(rounded_bf16(value), VecH);
}
inline std::uint16_t scalar_bf16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}
inline float scalar_f32(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

// ---- f16 ----

// f16 to f32 without F16C: exponent and mantissa are moved into place; the
// power of two that is missing is multiplied in, which also makes subnormals
// right.
inline VecF load_f16(const std::uint16_t* from) {
  const VecH bits16 = *reinterpret_cast<const UnalignedH*>(from);
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xFFFF, reinterpret_cast<__m256i>(bits16));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(bits16));
#else
  const VecU bits = __builtin_convertvector(bits16, VecU);
  const VecU magnitude = bits & 0x7FFFU;
  const VecF scaled = bits_to_f32(magnitude << 13) * 0x1p112F;
  const VecU special = (magnitude << 13) | 0x7F800000U;
  const VecU is_nan = reinterpret_cast<VecU>(magnitude > 0x7C00U) & 0x400000U;
  const VecU finite_or_not = magnitude >= 0x7C00U ? special | is_nan : f32_to_bits(scaled);
  return bits_to_f32(finite_or_not | (bits & 0x8000U) << 16);
#endif
}

// ---- exp ----

// e^x for every float: below about -87.3 it is 0 (no denormals), above 88.72
// infinity, NaN stays NaN. x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor series
// of e^r up to r^7, cut 0.1 ulp from the truth; all in all below 2 ulp.
constexpr float kLowestExponent = -87.33654F;

struct ScaledPower {
  VecF power;  // e^r
  VecI n;
};
inline ScaledPower reduced_exponential(VecF y) {
  const VecF shift = broadcast(12582912.0F);  // 1.5 * 2^23: rounds to an integer
  const VecF shifted = fma(y, broadcast(1.44269504F), shift);
  const VecF n = shifted - shift;
  VecF r = fma(n, broadcast(-0.693359375F), y);
  r = fma(n, broadcast(2.12194440e-4F), r);
  VecF p = broadcast(1.9841270e-4F);
  p = fma(p, r, broadcast(1.3888889e-3F));
  p = fma(p, r, broadcast(8.3333333e-3F));
  p = fma(p, r, broadcast(4.1666667e-2F));
  p = fma(p, r, broadcast(0.16666667F));
  p = fma(p, r, broadcast(0.5F));
  return {fma(p * r, r, r) + 1.0F, reinterpret_cast<VecI>(shifted) - 0x4B400000};
}

inline VecF exponential(VecF x) {
  const VecF lowest = broadcast(kLowestExponent);
  const VecF highest = broadcast(88.72283F);
  VecF y = x < lowest ? lowest : x;
  y = y > highest ? highest : y;
  const ScaledPower e = reduced_exponential(y);
  // 2^n in two factors: n reaches 128, whose power has no float.
  const VecI half = e.n >> 1;
  const VecF first = bits_to_f32(reinterpret_cast<VecU>(half + 127) << 23);
  const VecF second = bits_to_f32(reinterpret_cast<VecU>(e.n - half + 127) << 23);
  const VecF p = x < lowest ? VecF{} : e.power * first * second;
  return x > highest ? broadcast(__builtin_inff()) : p;
}

// The same bits for x <= 0 and NaN, with fewer operations.
inline VecF exponential_below_one(VecF x) {
  const VecF lowest = broadcast(kLowestExponent);
  const ScaledPower e = reduced_exponential(x < lowest ? lowest : x);
  const VecF p = e.power * bits_to_f32(reinterpret_cast<VecU>(e.n + 127) << 23);
  return x < lowest ? VecF{} : p;
}

}  // namespace
}  // namespace troupe
