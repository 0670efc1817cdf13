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

// The number of quads that still have such a sum of their products, two of each.
constexpr int quads_in_16_bits(int most_code) { return 0x7FFF / (2 * 127 * most_code); }

#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
constexpr bool kSumsIn16Bits = true;
typedef std::int16_t VecS __attribute__((vector_size(kLanes * 4)));

// A lane's first two products and its last two; no code is above kMostNarrowCode.
[[gnu::always_inline]] inline VecS dot_pairs(VecU codes, VecI a) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecS>(
      _mm512_maddubs_epi16(reinterpret_cast<__m512i>(codes), reinterpret_cast<__m512i>(a)));
#else
  return reinterpret_cast<VecS>(
      _mm256_maddubs_epi16(reinterpret_cast<__m256i>(codes), reinterpret_cast<__m256i>(a)));
#endif
}

[[gnu::always_inline]] inline VecI add_pairs(VecI sum, VecS pairs) {
  const VecU ones = VecU{} + 0x00010001U;
#if defined(__AVX512F__)
  return sum + reinterpret_cast<VecI>(
                   _mm512_madd_epi16(reinterpret_cast<__m512i>(pairs), reinterpret_cast<__m512i>(ones)));
#else
  return sum + reinterpret_cast<VecI>(
                   _mm256_madd_epi16(reinterpret_cast<__m256i>(pairs), reinterpret_cast<__m256i>(ones)));
#endif
}

// A sum is added to at once: else the compiler makes the products of a whole block first, in memory.
template <typename Vector>
[[gnu::always_inline]] inline void keep_in_register(Vector& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#else
  asm("" : "+x"(value));
#endif
}
#else
constexpr bool kSumsIn16Bits = false;
#endif

// kIsNarrow: no code is above kMostNarrowCode.
template <bool kIsNarrow>
[[gnu::always_inline]] inline VecI add_dot(VecI sum, VecU codes, VecI a) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<VecI>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(codes), reinterpret_cast<__m512i>(a)));
#elif defined(__AVXVNNI__)
  return reinterpret_cast<VecI>(_mm256_dpbusd_avx_epi32(
      reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(codes), reinterpret_cast<__m256i>(a)));
#elif defined(__AVX512F__)
  const auto bytes = reinterpret_cast<__m512i>(a);
  if constexpr (kIsNarrow) {
    return add_pairs(sum, dot_pairs(codes, a));
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
    return add_pairs(sum, dot_pairs(codes, a));
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

// A sum over kQuads quads in turn, of codes up to kMostCode. Without VNNI a quad is added in 16 bits for as
// long as they suffice, in two operations, where add_dot takes three or more.
template <int kMostCode, int kQuads>
class QuadSum {
 public:
  [[gnu::always_inline]] void begin(VecI sum) { sum_ = sum; }

  [[gnu::always_inline]] void add([[maybe_unused]] int quad, VecU codes, VecI a) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
    constexpr int kAtOnce = quads_in_16_bits(kMostCode);
    if constexpr (kAtOnce > 1) {
      const VecS pairs = dot_pairs(codes, a);
      pairs_ = quad % kAtOnce == 0 ? pairs : pairs_ + pairs;
      if constexpr (kAtOnce > 2) keep_in_register(pairs_);  // else too few to fill memory
      if (quad % kAtOnce == kAtOnce - 1 || quad == kQuads - 1) sum_ = add_pairs(sum_, pairs_);
      return;
    }
#endif
    sum_ = add_dot<kMostCode <= kMostNarrowCode>(sum_, codes, a);
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
    keep_in_register(sum_);
#endif
  }

  [[gnu::always_inline]] VecI value() const { return sum_; }

 private:
  VecI sum_;
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
  VecS pairs_;
#endif
};

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
