// SPDX-License-Identifier: Apache-2.0
// The inner step of products with rows in 8 bits: four bytes of weights without sign, times four of
// a row with sign, are added to a lane of 32 bits. It is exact on every instruction set.
#pragma once

#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

typedef std::int8_t VecB __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t AliasI __attribute__((aligned(1), may_alias));

// Codes up to which two products have a sum of 16 bits with sign.
constexpr int kMostNarrowCode = 128;

// kIsNarrow: no code is above kMostNarrowCode.
template <bool kIsNarrow>
[[gnu::always_inline]] inline VecI add_dot(VecI sum, VecU codes, VecI a) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<VecI>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(codes), reinterpret_cast<__m512i>(a)));
#elif defined(__AVX512F__)
  const auto bytes = reinterpret_cast<__m512i>(a);
  if constexpr (kIsNarrow) {
    const __m512i pairs = _mm512_maddubs_epi16(reinterpret_cast<__m512i>(codes), bytes);
    const VecU ones = VecU{} + 0x00010001U;
    return sum + reinterpret_cast<VecI>(_mm512_madd_epi16(pairs, reinterpret_cast<__m512i>(ones)));
  } else {
    const __m512i even = _mm512_madd_epi16(reinterpret_cast<__m512i>(codes & 0x00FF00FFU),
                                           _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8));
    const __m512i odd =
        _mm512_madd_epi16(reinterpret_cast<__m512i>(codes >> 8 & 0x00FF00FFU), _mm512_srai_epi16(bytes, 8));
    return sum + (reinterpret_cast<VecI>(even) + reinterpret_cast<VecI>(odd));
  }
#elif defined(__AVX2__)
  const auto bytes = reinterpret_cast<__m256i>(a);
  if constexpr (kIsNarrow) {
    const __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(codes), bytes);
    const VecU ones = VecU{} + 0x00010001U;
    return sum + reinterpret_cast<VecI>(_mm256_madd_epi16(pairs, reinterpret_cast<__m256i>(ones)));
  } else {
    const __m256i even = _mm256_madd_epi16(reinterpret_cast<__m256i>(codes & 0x00FF00FFU),
                                           _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
    const __m256i odd =
        _mm256_madd_epi16(reinterpret_cast<__m256i>(codes >> 8 & 0x00FF00FFU), _mm256_srai_epi16(bytes, 8));
    return sum + (reinterpret_cast<VecI>(even) + reinterpret_cast<VecI>(odd));
  }
#else
  for (int byte = 0; byte < 4; ++byte)
    sum += reinterpret_cast<VecI>(codes >> (8 * byte) & 0xFFU) *
           (reinterpret_cast<VecI>(reinterpret_cast<VecU>(a) << (24 - 8 * byte)) >> 24);
  return sum;
#endif
}

// table: of 16 bytes. codes: from 0 to 15 in each byte.
inline VecU look_up_bytes(const std::uint8_t* table, VecU codes) {
#if defined(__AVX512F__)
  const __m512i tables =
      _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<VecU>(_mm512_shuffle_epi8(tables, reinterpret_cast<__m512i>(codes)));
#elif defined(__AVX2__)
  const __m256i tables = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<VecU>(_mm256_shuffle_epi8(tables, reinterpret_cast<__m256i>(codes)));
#else
  VecB bytes = reinterpret_cast<VecB>(codes);
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<std::int8_t>(table[bytes[i]]);
  return reinterpret_cast<VecU>(bytes);
#endif
}

}  // namespace
}  // namespace troupe
