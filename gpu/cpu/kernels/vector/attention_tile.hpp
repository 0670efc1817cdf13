// SPDX-License-Identifier: Apache-2.0
// The register tiles of attention: queries of some rows times a page's keys, weights of these
// rows times its values. One accumulator a result, elements and tokens in order.
//
// A tile fetches its share of the page that comes next, some bytes with every step: memory is kept
// busy from a page's first row to its last one.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/attention_splits.hpp"
#include "gpu/cpu/kernels/vector/matmul_tile.hpp"

namespace troupe {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kAttentionTileRows = 8;
#elif defined(__AVX2__)
constexpr std::size_t kAttentionTileRows = 6;  // times two vectors of 16 registers
#else
constexpr std::size_t kAttentionTileRows = 4;
#endif
constexpr std::size_t kQueryStrideBytes = kMaxHeadDim * 4 + 64;

// Rows are dealt evenly to as few tiles as can be: these take equally long, and so do their shares of
// the next page.
constexpr std::size_t num_tiles_of(std::size_t rows) {
  return (rows + kAttentionTileRows - 1) / kAttentionTileRows;
}
constexpr std::size_t rows_of_next_tile(std::size_t rows_left, std::size_t tiles_left) {
  return (rows_left + tiles_left - 1) / tiles_left;
}

#if defined(__AVX512BF16__)
constexpr Product kBf16Scores = Product::kDotBf16;
#else
constexpr Product kBf16Scores = Product::kWidened;
#endif

// A tile's way through its share of the next page.
struct FetchAhead {
  const std::byte* at = nullptr;
  std::size_t step = 0;  // bytes, with each step of the tile; 0: it stays where it is
};

template <std::size_t kStepBytes>
inline void fetch_ahead(FetchAhead& ahead) {
#pragma GCC unroll 16
  for (std::size_t line = 0; line < kStepBytes; line += 64) __builtin_prefetch(ahead.at + line, 0, 2);
  ahead.at += ahead.step;
}

struct ScoreOperands {
  const std::byte* queries = nullptr;  // kQueryStrideBytes apart
  const std::byte* keys = nullptr;     // of the first of its tokens
  std::size_t num_units = 0;
  FetchAhead ahead;
  float* scores = nullptr;  // [rows][32]
};

template <Product kProduct, int kRows, int kVectors>
[[gnu::noinline]] void score_keys(const ScoreOperands& o) {
  VecF sums[kRows][kVectors] = {};
  const std::byte* queries = o.queries;
  const std::byte* keys = o.keys;
  FetchAhead ahead = o.ahead;
  for (std::size_t unit = 0; unit < o.num_units; ++unit) {
    fetch_ahead<kVectors * kLanes * 4>(ahead);
    multiply_units<kProduct, kRows, kVectors, kQueryStrideBytes, false>(
        {.a = queries, .panel = keys, .num_units = 1}, sums);
    queries += unit_bytes_of_a(kProduct);
    keys += kUnitBytes;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(o.scores + r * kKvPageTokens + v * kLanes, sums[r][v]);
  }
}

// Two vectors of bf16 are opened by a shift and a mask, so that sums of even and of odd elements lie apart
// until end_split().
template <DataType kType, int kVectors>
inline void load_values(const std::byte* from, VecF (&values)[kVectors]) {
  if constexpr (kType == DataType::kF32) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) values[v] = load(from + v * kLanes * 4);
  } else if constexpr (kVectors % 2 == 0) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; v += 2) {
      const VecU pairs = load_u32(from + v * kLanes * 2);
      values[v] = low_bf16(pairs);
      values[v + 1] = high_bf16(pairs);
    }
  } else {
    static_assert(kVectors == 1);
    values[0] = load_bf16(reinterpret_cast<const std::uint16_t*>(from));
  }
}

struct ValueOperands {
  const float* weights = nullptr;  // [rows][32]
  const std::byte* values = nullptr;
  std::size_t value_stride = 0;  // bytes from token to token
  std::size_t num_tokens = 0;
  FetchAhead ahead;
  float* sums = nullptr;  // [rows][kSumStride]
};

template <DataType kType, int kRows, int kVectors>
[[gnu::noinline]] void add_weighted_values(const ValueOperands& o) {
  VecF sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = load(o.sums + r * kSumStride + v * kLanes);
  }
  const std::byte* values = o.values;
  FetchAhead ahead = o.ahead;
  for (std::size_t t = 0; t < o.num_tokens; ++t) {
    fetch_ahead<kVectors * kLanes*(kType == DataType::kF32 ? 4 : 2)>(ahead);
    VecF value[kVectors];
    load_values<kType>(values, value);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VecF weight = broadcast(o.weights[r * kKvPageTokens + t]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(weight, value[v], sums[r][v]);
    }
    values += o.value_stride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(o.sums + r * kSumStride + v * kLanes, sums[r][v]);
  }
}

using ScoreFunction = void (*)(const ScoreOperands&);
using ValueFunction = void (*)(const ValueOperands&);

// Vectors of scores and of a value that are summed at once: few rows take more of them, to
// have enough independent sums. Opened pairs of bf16 need registers, too. Steps of a value are
// at least 16 elements.
constexpr int kFewestVectors = static_cast<int>(16 / kLanes);
constexpr int score_vectors([[maybe_unused]] DataType type, [[maybe_unused]] std::size_t rows) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return rows <= (type == DataType::kF32 ? 3 : 2) ? 4 : 2;
#else
  return 2;
#endif
}
constexpr int most_vectors([[maybe_unused]] DataType type, [[maybe_unused]] std::size_t rows) {
#if defined(__AVX512F__)
  return rows <= 4 ? 4 : 2;
#elif defined(__AVX2__)
  return score_vectors(type, rows);
#else
  return kFewestVectors;
#endif
}

struct AttentionTile {
  ScoreFunction score;
  int score_vectors;
  struct Values {
    ValueFunction add;
    int vectors;
  } values[3];  // widest first; the last is kFewestVectors wide
};

template <DataType kType, int kRows>
constexpr AttentionTile attention_tile() {
  constexpr Product kProduct = kType == DataType::kF32 ? Product::kF32 : kBf16Scores;
  constexpr int kMost = most_vectors(kType, kRows);
  constexpr int kMiddle = kMost / 2 > kFewestVectors ? kMost / 2 : kFewestVectors;
  constexpr int kScores = score_vectors(kType, kRows);
  return {score_keys<kProduct, kRows, kScores>,
          kScores,
          {{add_weighted_values<kType, kRows, kMost>, kMost},
           {add_weighted_values<kType, kRows, kMiddle>, kMiddle},
           {add_weighted_values<kType, kRows, kFewestVectors>, kFewestVectors}}};
}

template <DataType kType>
const AttentionTile& attention_tile_of(std::size_t rows) {
  static constexpr AttentionTile kTiles[] = {
    attention_tile<kType, 1>(),
    attention_tile<kType, 2>(),
    attention_tile<kType, 3>(),
    attention_tile<kType, 4>(),
#if defined(__AVX2__)
    attention_tile<kType, 5>(),
    attention_tile<kType, 6>(),
#endif
#if defined(__AVX512F__)
    attention_tile<kType, 7>(),
    attention_tile<kType, 8>(),
#endif
  };
  static_assert(sizeof kTiles / sizeof kTiles[0] == kAttentionTileRows);
  return kTiles[rows - 1];
}

}  // namespace
}  // namespace troupe
