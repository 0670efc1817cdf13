// SPDX-License-Identifier: Apache-2.0
// The register tile of products with rows in 8 bits: some rows times two vectors of outputs over some
// blocks. The sum of a block, or of a half that has a scale of its own, is whole numbers of 32 bits,
// exact in any order and in f32; it is added to c times the scales of both, then the minimum times
// the sum of a.
#pragma once

#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/cpu/kernels/vector/q8_weights.hpp"

namespace troupe {
namespace {

// Rows of a tile: with AVX-512 as many as have all sums, those of a block and those of all, in registers.
#if defined(__AVX512VNNI__)
constexpr int kMaxQ8Rows = 7;
#elif defined(__AVX512F__)
constexpr int kMaxQ8Rows = 6;
#elif defined(__AVX2__)
constexpr int kMaxQ8Rows = 4;
#else
constexpr int kMaxQ8Rows = 2;
#endif
constexpr int kQ8Vectors = 2;

struct Q8Operands {
  Q8Rows rows;                         // from the tile's first row and block on
  const std::byte* weights = nullptr;  // the panel's first block, or the head in front of it
  int first_vector = 0;                // of the panel
  bool has_minimum = false;            // of opened blocks
  std::size_t num_blocks = 0;          // of whole super-blocks
  float* c = nullptr;                  // sums are added to it
  std::size_t c_stride = 0;
};

// The block that a tile is at.
struct Q8Place {
  const std::byte* head = nullptr;
  const std::byte* block = nullptr;
  const std::int8_t* numbers = nullptr;  // of the tile's first row
  const RoundedBlock* facts = nullptr;
};

// Takes the offset of codes away: minus the numbers of a part, times it.
template <typename Weights, int kPart>
[[gnu::always_inline]] inline VecI without_offset(const RoundedBlock& facts) {
  if constexpr (Weights::kOffset == 0) {
    return VecI{};
  } else {
    static_assert(Weights::kOffset % kLeastOffset == 0);
    VecI numbers = VecI{} + (Weights::kScales == 2 && kPart == 0 ? facts.first_half_offset : facts.offset);
    if constexpr (kPart == 1) numbers -= facts.first_half_offset;
    return numbers * static_cast<std::int32_t>(Weights::kOffset / kLeastOffset);
  }
}

// The sums of a block, or of one of the parts of its weights that have scales of their own.
template <typename Weights>
using PartSum = QuadSum<Weights::kMostCode, kBlockQuads / Weights::kScales>;

template <typename Weights, int kPart, int kRows>
[[gnu::always_inline]] inline void sum_q8_part(const Q8Place& at, int first_vector,
                                               PartSum<Weights> (&sums)[kRows][kQ8Vectors]) {
  constexpr int kQuads = kBlockQuads / Weights::kScales;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const VecI begin = without_offset<Weights, kPart>(at.facts[r]);
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) sums[r][v].begin(begin);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQuads; ++i) {
    const int quad = kPart * kQuads + i;
    VecU codes[kQ8Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) codes[v] = Weights::quad(at.block, quad, first_vector + v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const std::int8_t* numbers = at.numbers + r * static_cast<int>(kBlockInputs) + 4 * quad;
      const VecI a = VecI{} + *reinterpret_cast<const AliasI*>(numbers);
#pragma GCC unroll 16
      for (int v = 0; v < kQ8Vectors; ++v) sums[r][v].add(i, codes[v], a);
    }
  }
}

// Adds the sums of a part times the scales.
template <typename Weights, int kPart, int kRows>
[[gnu::always_inline]] inline void add_q8_part(const Q8Place& at, int first_vector,
                                               VecF (&totals)[kRows][kQ8Vectors]) {
  PartSum<Weights> sums[kRows][kQ8Vectors];
  sum_q8_part<Weights, kPart>(at, first_vector, sums);
  VecF scales[kQ8Vectors];
#pragma GCC unroll 16
  for (int v = 0; v < kQ8Vectors; ++v) scales[v] = Weights::scale(at.head, at.block, kPart, first_vector + v);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const VecF scale_of_a = broadcast(at.facts[r].scale);
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v)
      totals[r][v] =
          fma(__builtin_convertvector(sums[r][v].value(), VecF), scales[v] * scale_of_a, totals[r][v]);
  }
}

template <typename Weights, int kRows>
[[gnu::always_inline]] inline void add_q8_minimums(const Q8Place& at, int first_vector,
                                                   VecF (&totals)[kRows][kQ8Vectors]) {
  VecF minimums[kQ8Vectors];
#pragma GCC unroll 16
  for (int v = 0; v < kQ8Vectors; ++v) minimums[v] = Weights::minimum(at.head, at.block, first_vector + v);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const VecF sum_of_a = broadcast(at.facts[r].sum);
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) totals[r][v] = fma(minimums[v], sum_of_a, totals[r][v]);
  }
}

template <int kRows>
[[gnu::always_inline]] inline void fetch_rows(const std::int8_t* numbers) {
#pragma GCC unroll 8
  for (std::size_t line = 0; line < kRows * kBlockInputs; line += 64) __builtin_prefetch(numbers + line);
}

// Loops over rows and vectors are unrolled everywhere: an array that a loop indexes lies in memory.
template <typename Weights, int kRows>
[[gnu::noinline]] void multiply_q8_tile(const Q8Operands& t) {
  Q8Place at{t.weights, t.weights, t.rows.numbers, t.rows.blocks};
  const int first_vector = kPanelVectors == kQ8Vectors ? 0 : t.first_vector;
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride, num_rows = t.rows.num_rows;
  VecF totals[kRows][kQ8Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) totals[r][v] = load(c + r * c_stride + v * kLanes);
  }
  for (std::size_t i = 0; i < t.num_blocks; ++i) {
    if (Weights::kHeadBytes != 0 && i % kSuperBlocks == 0) {
      at.head = at.block;
      fetch_ahead<Weights::kHeadBytes, Weights::kBytesAhead>(at.head);
      at.block += Weights::kHeadBytes;
    }
    const std::int8_t* const next_numbers = at.numbers + num_rows * kBlockInputs;
    fetch_ahead<Weights::kBlockBytes, Weights::kBytesAhead>(at.block);
    fetch_rows<kRows>(next_numbers);
    add_q8_part<Weights, 0>(at, first_vector, totals);
    if constexpr (Weights::kScales == 2) add_q8_part<Weights, 1>(at, first_vector, totals);
    if (Weights::has_minimum(t.has_minimum)) add_q8_minimums<Weights>(at, first_vector, totals);
    at.block += Weights::kBlockBytes;
    at.numbers = next_numbers;
    at.facts += num_rows;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) store(c + r * c_stride + v * kLanes, totals[r][v]);
  }
}

using Q8Tile = void (*)(const Q8Operands&);

// kMostRows: of the tiles that are made.
template <typename Weights, int kMostRows>
Q8Tile q8_tile(std::size_t rows) {
  if constexpr (kMostRows > 1) {
    if (rows < kMostRows) return q8_tile<Weights, kMostRows - 1>(rows);
  }
  return multiply_q8_tile<Weights, kMostRows>;
}

}  // namespace
}  // namespace troupe
