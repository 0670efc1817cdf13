// SPDX-License-Identifier: Apache-2.0
// Attention of a block of query rows over the pages of one sequence and KV head.
// A row is one query token and one head of the group; rows are ordered token by
// token. Pages that every row sees in full are done for all rows at once, so
// keys and values come from cache; the last pages token by token, since each
// token ends elsewhere. What is done to one row is the same either way.
#pragma once

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/kernels/vector/matmul_tile.hpp"

namespace troupe {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kAttentionTileRows = 8;
#else
constexpr std::size_t kAttentionTileRows = 4;
#endif
constexpr std::size_t kMaxAttentionRows = 32;  // of one pass over the pages
constexpr int kScoreVectors = kPanelVectors < 2 ? kPanelVectors : 2;
constexpr std::size_t kQueryStrideBytes = kMaxHeadDim * 4 + 64;
constexpr std::size_t kSumStride = kMaxHeadDim + 16;  // floats

// The state of the online softmax of some rows.
struct AttentionRows {
  alignas(64) std::byte queries[kMaxAttentionRows * kQueryStrideBytes];  // f32, scaled
  alignas(64) float sums[kMaxAttentionRows * kSumStride];  // of weighted values
  alignas(64) float scores[kMaxAttentionRows * kKvPageTokens];
  alignas(64) float totals[kMaxAttentionRows * kLanes];    // of weights, lane by lane
  float highest[kMaxAttentionRows];
};

struct PageView {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::ptrdiff_t next = 0;  // bytes to the page after it, to prefetch
};

struct ValueOperands {
  const float* weights = nullptr;   // [rows][32]
  const std::byte* values = nullptr;
  std::size_t value_stride = 0;     // bytes from token to token
  std::size_t num_tokens = 0;
  std::ptrdiff_t prefetch = 0;
  float* sums = nullptr;            // [rows][kSumStride]
};

template <DataType kType>
inline VecF load_value(const std::byte* from) {
  if constexpr (kType == DataType::kF32) return load(from);
  return load_bf16(reinterpret_cast<const std::uint16_t*>(from));
}

template <DataType kType, int kRows, int kVectors>
[[gnu::noinline]] void add_weighted_values(const ValueOperands& o) {
  constexpr std::size_t kVectorBytes = kLanes * (kType == DataType::kF32 ? 4 : 2);
  VecF sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = load(o.sums + r * kSumStride + v * kLanes);
  }
  const std::byte* values = o.values;
  for (std::size_t t = 0; t < o.num_tokens; ++t) {
    __builtin_prefetch(values + o.prefetch);
    VecF value[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) value[v] = load_value<kType>(values + v * kVectorBytes);
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

using ValueFunction = void (*)(const ValueOperands&);

struct AttentionTile {
  TileFunction score;
  ValueFunction add_many;  // kManyVectors vectors of a value
  ValueFunction add_few;   // 16 elements of a value
};
constexpr int kFewVectors = static_cast<int>(16 / kLanes);

// Few rows hold more of a value at once, to have enough independent sums.
constexpr int many_vectors(std::size_t rows) {
#if defined(__AVX512F__)
  return rows <= 2 ? 4 : 2;
#else
  return rows == 0 ? 0 : kFewVectors < 2 ? 2 : kFewVectors;
#endif
}

template <DataType kType, int kRows>
constexpr AttentionTile attention_tile() {
  constexpr Product kProduct = kType == DataType::kF32 ? Product::kF32 : Product::kWidened;
  return {multiply_tile<kProduct, kRows, kScoreVectors, kQueryStrideBytes>,
          add_weighted_values<kType, kRows, many_vectors(kRows)>,
          add_weighted_values<kType, kRows, kFewVectors>};
}

template <DataType kType>
const AttentionTile& attention_tile_of(std::size_t rows) {
  static constexpr AttentionTile kTiles[] = {
      attention_tile<kType, 1>(), attention_tile<kType, 2>(), attention_tile<kType, 3>(),
      attention_tile<kType, 4>(),
#if defined(__AVX512F__)
      attention_tile<kType, 5>(), attention_tile<kType, 6>(), attention_tile<kType, 7>(),
      attention_tile<kType, 8>(),
#endif
  };
  return kTiles[rows - 1];
}

// scores[row][0 .. 32): the lanes behind the last valid token are garbage.
template <DataType kType>
void score_page(const KvLayout& layout, const PageView& page, AttentionRows& state,
                std::size_t first, std::size_t rows) {
  for (std::size_t column = 0; column < kKvPageTokens; column += kScoreVectors * kLanes) {
    attention_tile_of<kType>(rows).score(
        {.a = state.queries + first * kQueryStrideBytes,
         .panel = page.keys + column * 4,
         .num_units = kType == DataType::kF32 ? layout.head_dim : layout.head_dim / 2,
         .prefetch = page.next,
         .c = state.scores + first * kKvPageTokens + column,
         .c_stride = kKvPageTokens,
         .starts_at_zero = true});
  }
}

// Turns scores into weights and rescales what was summed before.
inline void update_softmax(AttentionRows& state, std::size_t row, std::size_t num_tokens,
                           std::size_t num_columns) {
  constexpr VecF kMinusInfinity = VecF{} - __builtin_inff();
  float* scores = state.scores + row * kKvPageTokens;
  VecF masked[kPanelVectors];
  VecF page_highest = kMinusInfinity;
  for (int v = 0; v < kPanelVectors; ++v) {
    VecI lane;
    for (std::size_t i = 0; i < kLanes; ++i) lane[i] = static_cast<int>(v * kLanes + i);
    const VecF score = load(scores + v * kLanes);
    masked[v] = lane < static_cast<int>(num_tokens) ? score : kMinusInfinity;
    page_highest = maximum(masked[v], page_highest);
  }
  const float before = state.highest[row];
  const float candidate = max_of_lanes(page_highest);
  const float highest = candidate > before ? candidate : before;
  float* totals = state.totals + row * kLanes;
  VecF total = load(totals);
  if (highest > before) {
    const VecF factor = exponential(broadcast(before - highest));
    total *= factor;
    float* sums = state.sums + row * kSumStride;
    for (std::size_t d = 0; d < num_columns; d += kLanes) store(sums + d, load(sums + d) * factor);
    state.highest[row] = highest;
  }
  for (int v = 0; v < kPanelVectors; ++v) {
    const VecF weight = exponential(masked[v] - highest);
    store(scores + v * kLanes, weight);
    total += weight;
  }
  store(totals, total);
}

template <DataType kType>
void add_page_values(const KvLayout& layout, const PageView& page, AttentionRows& state,
                     std::size_t first, std::size_t rows, std::size_t num_tokens) {
  constexpr std::size_t kElement = kType == DataType::kF32 ? 4 : 2;
  const AttentionTile& tile = attention_tile_of<kType>(rows);
  const std::size_t num_columns = padded_head_dim(layout.head_dim);
  const std::size_t many = many_vectors(rows) * kLanes;
  std::size_t column = 0;
  while (column < num_columns) {
    const bool is_wide = num_columns - column >= many;
    (is_wide ? tile.add_many : tile.add_few)(
        {.weights = state.scores + first * kKvPageTokens,
         .values = page.values + column * kElement,
         .value_stride = num_columns * kElement,
         .num_tokens = num_tokens,
         .prefetch = page.next,
         .sums = state.sums + first * kSumStride + column});
    column += is_wide ? many : 16;
  }
}

template <DataType kType>
void attend_to_page(const KvLayout& layout, const PageView& page, AttentionRows& state,
                    std::size_t first_row, std::size_t num_rows, std::size_t num_tokens) {
  const std::size_t end = first_row + num_rows;
  for (std::size_t row = first_row; row < end; row += kAttentionTileRows) {
    const std::size_t rows = end - row < kAttentionTileRows ? end - row : kAttentionTileRows;
    score_page<kType>(layout, page, state, row, rows);
    for (std::size_t r = 0; r < rows; ++r) {
      update_softmax(state, row + r, num_tokens, padded_head_dim(layout.head_dim));
    }
    add_page_values<kType>(layout, page, state, row, rows, num_tokens);
  }
}

inline PageView view_page(const AttentionWork& work, std::size_t index, std::size_t num_pages) {
  const std::byte* block = work.page_zero + work.pages[index] * work.page_stride;
  const std::size_t following = index + 1 < num_pages ? index + 1 : index;
  const std::byte* next = work.page_zero + work.pages[following] * work.page_stride;
  const std::size_t key_bytes =
      kKvPageTokens * work.layout.head_dim * (work.layout.type == DataType::kF32 ? 4 : 2);
  return {.keys = block, .values = block + key_bytes, .next = next - block};
}

inline void load_queries(const AttentionWork& work, std::size_t first_head, std::size_t heads,
                         std::size_t first_token, std::size_t tokens, AttentionRows& state) {
  const std::size_t head_dim = work.layout.head_dim;
  for (std::size_t row = 0; row < tokens * heads; ++row) {
    const float* query = work.queries + (first_token + row / heads) * work.query_stride +
                         (first_head + row % heads) * head_dim;
    auto* scaled = reinterpret_cast<float*>(state.queries + row * kQueryStrideBytes);
    for (std::size_t d = 0; d < head_dim; ++d) scaled[d] = query[d] * work.scale;
    for (std::size_t d = 0; d < kSumStride; ++d) state.sums[row * kSumStride + d] = 0.0F;
    for (std::size_t d = 0; d < kLanes; ++d) state.totals[row * kLanes + d] = 0.0F;
    state.highest[row] = -__builtin_inff();
  }
}

inline void store_results(const AttentionWork& work, std::size_t first_head, std::size_t heads,
                          std::size_t first_token, std::size_t tokens, const AttentionRows& state) {
  const std::size_t head_dim = work.layout.head_dim;
  for (std::size_t row = 0; row < tokens * heads; ++row) {
    const float inverse = 1.0F / sum_of_lanes(load(state.totals + row * kLanes));
    const float* sums = state.sums + row * kSumStride;
    const std::size_t offset = (first_token + row / heads) * work.attended_stride +
                               (first_head + row % heads) * head_dim;
    if (work.attended_type == DataType::kF32) {
      float* out = static_cast<float*>(work.attended) + offset;
      for (std::size_t d = 0; d < head_dim; ++d) out[d] = sums[d] * inverse;
    } else {
      auto* out = static_cast<std::uint16_t*>(work.attended) + offset;
      for (std::size_t d = 0; d < head_dim; ++d) out[d] = scalar_bf16(sums[d] * inverse);
    }
  }
}

template <DataType kType>
void attend_rows(const AttentionWork& work, std::size_t first_head, std::size_t heads,
                 std::size_t first_token, std::size_t tokens) {
  AttentionRows state;
  load_queries(work, first_head, heads, first_token, tokens, state);
  const std::size_t first_position = work.first_position + first_token;
  const std::size_t num_pages = (first_position + tokens - 1) / kKvPageTokens + 1;
  const std::size_t num_full_pages = (first_position + 1) / kKvPageTokens;
  for (std::size_t index = 0; index < num_pages; ++index) {
    const PageView page = view_page(work, index, num_pages);
    if (index < num_full_pages) {
      attend_to_page<kType>(work.layout, page, state, 0, tokens * heads, kKvPageTokens);
      continue;
    }
    for (std::size_t token = 0; token < tokens; ++token) {
      const std::size_t visible = first_position + token + 1;
      if (visible <= index * kKvPageTokens) continue;
      const std::size_t left = visible - index * kKvPageTokens;
      attend_to_page<kType>(work.layout, page, state, token * heads, heads,
                            left < kKvPageTokens ? left : kKvPageTokens);
    }
  }
  store_results(work, first_head, heads, first_token, tokens, state);
}

inline void attend(const AttentionWork& work) {
  const std::size_t group = work.num_group_heads;
  const std::size_t heads_at_once = group < kMaxAttentionRows ? group : kMaxAttentionRows;
  const std::size_t tokens_at_once = kMaxAttentionRows / heads_at_once;
  for (std::size_t head = 0; head < group; head += heads_at_once) {
    const std::size_t heads = group - head < heads_at_once ? group - head : heads_at_once;
    for (std::size_t token = 0; token < work.num_tokens; token += tokens_at_once) {
      const std::size_t left = work.num_tokens - token;
      const std::size_t tokens = left < tokens_at_once ? left : tokens_at_once;
      if (work.layout.type == DataType::kF32) {
        attend_rows<DataType::kF32>(work, head, heads, token, tokens);
      } else {
        attend_rows<DataType::kBF16>(work, head, heads, token, tokens);
      }
    }
  }
}

}  // namespace
}  // namespace troupe
