// SPDX-License-Identifier: Apache-2.0
// Attention of a block of query rows over the pages of one sequence and KV head.
// A row is one query token and one head of the group; rows are ordered token by
// token, so a later row sees at least as much of a page as an earlier one. All
// rows go through a page together and keys and values come from cache; a row
// stops at its own position, an encoder's at the end of its sequence. A row's
// operations do not depend on which rows are beside it: one accumulator per
// result and split of its keys, tokens in order; splits are merged in order, too
// (attention_splits.hpp).
//
// Pages in 8 bits are opened to whole numbers, which bf16 and f32 hold exactly; a token's scales
// multiply its scores and its weights.
//
// Queries are f32 unless keys are bf16 and the CPU multiplies bf16 pairs; then
// they are rounded to bf16 too. Weights and sums are always f32.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/activation_kernels.hpp"
#include "gpu/cpu/kernels/vector/attention_splits.hpp"
#include "gpu/cpu/kernels/vector/attention_tile.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxAttentionRows = 32;  // of one pass over the pages

// The state of the online softmax of some rows in one split.
struct AttentionRows {
  alignas(64) std::byte queries[kMaxAttentionRows * kQueryStrideBytes];  // scaled
  alignas(64) float sums[kMaxAttentionRows * kSumStride];                // of weighted values
  alignas(64) float scores[kMaxAttentionRows * kKvPageTokens];
  alignas(64) float totals[kMaxAttentionRows * kLanes];  // of weights, lane by lane
  float highest[kMaxAttentionRows];
  std::size_t visible[kMaxAttentionRows];  // end of the tokens of this page
  std::size_t hidden[kMaxAttentionRows];   // their begin: those before it left the row's window
};

struct PageView {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::ptrdiff_t next = 0;  // bytes to the page after it, to fetch ahead
  std::size_t tile = 0;     // reads the page now
  std::size_t num_tiles = 1;
  const float* key_scales = nullptr;  // [32 tokens], and of values; null: none
  const float* value_scales = nullptr;
};

// A page in 8 bits as the tiles read it.
struct OpenedPage {
  alignas(64) std::byte elements[kKvPageTokens * 2 * kMaxHeadDim * 4];
  alignas(64) float scales[2 * kKvPageTokens];  // of keys, of values
};

// A tile's share of the next page's keys or values, that are `num_bytes`, when it has walked so many bytes of
// this page's (`whole`) and goes on by `step`. Without a next page it stays at what is in the cache.
inline FetchAhead share_of(const PageView& page, const std::byte* whole, std::size_t num_bytes,
                           std::size_t walked, std::size_t step) {
  if (page.next == 0) return {.at = whole, .step = 0};
  const std::size_t begin = (page.tile * num_bytes + walked) / page.num_tiles;
  return {.at = whole + page.next + begin, .step = step / page.num_tiles};
}

// scores[row][0 .. 32): the lanes behind the last valid token are garbage.
template <DataType kType>
void score_page(const KvLayout& layout, const PageView& page, AttentionRows& state, std::size_t first,
                std::size_t rows) {
  const AttentionTile& tile = attention_tile_of<kType>(rows);
  const std::size_t num_units = kType == DataType::kF32 ? layout.head_dim : layout.head_dim / 2;
  const std::size_t width = tile.score_vectors * kLanes;
  for (std::size_t column = 0; column < kKvPageTokens; column += width) {
    tile.score({.queries = state.queries + first * kQueryStrideBytes,
                .keys = page.keys + column * 4,
                .num_units = num_units,
                .ahead = share_of(page, page.keys, num_units * kUnitBytes, column * 4 * num_units, width * 4),
                .scores = state.scores + first * kKvPageTokens + column});
  }
}

// Scores as the softmax has them, minus infinity where the row sees no token; where one is the highest
// so far, what was summed before is rescaled.
inline void prepare_softmax(AttentionRows& state, std::size_t row, std::size_t num_columns, float soft_cap,
                            const float* key_scales) {
  if (state.hidden[row] >= state.visible[row]) return;
  const auto hidden = static_cast<std::int32_t>(state.hidden[row]);
  const auto visible = static_cast<std::int32_t>(state.visible[row]);
  const bool sees_all = hidden == 0 && visible == static_cast<std::int32_t>(kKvPageTokens);
  float* scores = state.scores + row * kKvPageTokens;
  const VecF before = broadcast(state.highest[row]);
  VecF highest = before;
#pragma GCC unroll 8
  for (int v = 0; v < kPanelVectors; ++v) {
    VecF score = load(scores + v * kLanes);
    if (key_scales != nullptr) score *= load(key_scales + v * kLanes);
    if (soft_cap != 0.0F) score = capped(score, soft_cap);
    if (!sees_all) {
      const VecI token = kLaneIndex + static_cast<std::int32_t>(v * kLanes);
      score = ((token >= hidden) & (token < visible)) ? score : broadcast(-__builtin_inff());
    }
    store(scores + v * kLanes, score);
    highest = maximum(score, highest);
  }
  highest = max_in_all_lanes(highest);
  if (highest[0] > before[0]) {
    const VecF factor = exponential_below_one(before - highest);
    float* totals = state.totals + row * kLanes;
    store(totals, load(totals) * factor);
    float* sums = state.sums + row * kSumStride;
    for (std::size_t d = 0; d < num_columns; d += kLanes) store(sums + d, load(sums + d) * factor);
    state.highest[row] = highest[0];
  }
}

// Turns scores into weights. A pass of its own over the rows of a tile: none waits for its highest score.
inline void take_weights(AttentionRows& state, std::size_t row, const float* value_scales) {
  float* scores = state.scores + row * kKvPageTokens;
  if (state.hidden[row] >= state.visible[row]) {  // nothing is seen: weights of zero change no sum
    for (std::size_t token = 0; token < kKvPageTokens; token += kLanes) store(scores + token, VecF{});
    return;
  }
  const VecF highest = broadcast(state.highest[row]);
  float* totals = state.totals + row * kLanes;
  VecF total = load(totals);
#pragma GCC unroll 8
  for (int v = 0; v < kPanelVectors; ++v) {
    const VecF weight = exponential_below_one(load(scores + v * kLanes) - highest);
    total += weight;
    store(scores + v * kLanes, value_scales == nullptr ? weight : weight * load(value_scales + v * kLanes));
  }
  store(totals, total);
}

// Tokens [first_token, last_token) of the page for all rows of a tile.
template <DataType kType>
void add_values(const KvLayout& layout, const PageView& page, AttentionRows& state, std::size_t first_row,
                std::size_t rows, std::size_t first_token, std::size_t last_token) {
  constexpr std::size_t kElement = kType == DataType::kF32 ? 4 : 2;
  const std::size_t num_columns = padded_head_dim(layout.head_dim);
  const std::size_t stride = num_columns * kElement;
  std::size_t column = 0;
  for (const auto& values : attention_tile_of<kType>(rows).values) {
    const std::size_t width = values.vectors * kLanes;
    for (; num_columns - column >= width; column += width) {
      values.add({.weights = state.scores + first_row * kKvPageTokens + first_token,
                  .values = page.values + first_token * stride + column * kElement,
                  .value_stride = stride,
                  .num_tokens = last_token - first_token,
                  .ahead = share_of(page, page.values, kKvPageTokens * stride,
                                    column * kElement * kKvPageTokens, width * kElement),
                  .sums = state.sums + first_row * kSumStride + column});
    }
  }
}

template <DataType kType>
void attend_to_page(const KvLayout& layout, const PageView& page, AttentionRows& state, std::size_t num_rows,
                    float soft_cap) {
  PageView view = page;
  std::size_t row = 0;
  while (state.visible[row] == 0) ++row;  // the last row sees a token of every page
  view.num_tiles = num_tiles_of(num_rows - row);
  for (std::size_t rows = 0; row < num_rows; row += rows, ++view.tile) {
    rows = rows_of_next_tile(num_rows - row, view.num_tiles - view.tile);
    score_page<kType>(layout, view, state, row, rows);
    for (std::size_t r = row; r < row + rows; ++r)
      prepare_softmax(state, r, padded_head_dim(layout.head_dim), soft_cap, view.key_scales);
    for (std::size_t r = row; r < row + rows; ++r) take_weights(state, r, view.value_scales);
    // All rows see what the first one sees; the rest is done row by row.
    const std::size_t shared = state.visible[row];
    add_values<kType>(layout, view, state, row, rows, 0, shared);
    for (std::size_t r = row + 1; r < row + rows; ++r) {
      if (state.visible[r] > shared) {
        add_values<kType>(layout, view, state, r, 1, shared, state.visible[r]);
      }
    }
  }
}

inline std::size_t page_of(const AttentionWork& work, std::size_t index) {
  return work.pages == nullptr ? index : work.pages[index];
}

inline PageView view_page(const AttentionWork& work, std::size_t index, std::size_t num_pages) {
  const std::size_t following = index + 1 < num_pages ? index + 1 : index;
  const std::byte* block = work.page_zero + page_of(work, index) * work.page_stride;
  const std::byte* next = work.page_zero + page_of(work, following) * work.page_stride;
  const std::size_t key_bytes =
      kKvPageTokens * work.layout.head_dim * (work.layout.type == DataType::kF32 ? 4 : 2);
  return {.keys = block, .values = block + key_bytes, .next = next - block};
}

// Elements of the layout's type, and the next page's bytes on their way.
inline PageView open_page(const AttentionWork& work, const PageView& page, OpenedPage& opened) {
  using Numbers [[gnu::vector_size(kLanes)]] = std::int8_t;
  constexpr std::size_t kLine = 64;
  const std::size_t num_elements = kv_block_elements(work.layout);
  const bool is_f32 = work.layout.type == DataType::kF32;
  for (std::size_t i = 0; i < num_elements; i += kLanes) {
    if (i % kLine == 0) __builtin_prefetch(page.keys + page.next + i, 0, 2);
    Numbers numbers;
    __builtin_memcpy(&numbers, page.keys + i, sizeof numbers);
    const VecF value = __builtin_convertvector(__builtin_convertvector(numbers, VecI), VecF);
    if (is_f32) {
      store(reinterpret_cast<float*>(opened.elements) + i, value);
    } else {
      store_bf16(reinterpret_cast<std::uint16_t*>(opened.elements) + i, value);
    }
  }
  for (std::size_t i = 0; i < 2 * kKvPageTokens; i += kLanes) {
    const std::byte* scales = page.keys + kv_key_scale(work.layout, i);
    store(opened.scales + i, load_bf16(reinterpret_cast<const std::uint16_t*>(scales)));
  }
  const std::size_t num_keys = kKvPageTokens * work.layout.head_dim;
  return {.keys = opened.elements,
          .values = opened.elements + num_keys * (is_f32 ? 4 : 2),
          .next = 0,
          .key_scales = opened.scales,
          .value_scales = opened.scales + kKvPageTokens};
}

inline void load_queries(const AttentionWork& work, std::size_t first_head, std::size_t heads,
                         std::size_t first_token, std::size_t tokens, AttentionRows& state) {
  const std::size_t head_dim = work.layout.head_dim;
  for (std::size_t row = 0; row < tokens * heads; ++row) {
    const float* query = work.queries + (first_token + row / heads) * work.query_stride +
                         (first_head + row % heads) * head_dim;
    std::byte* scaled = state.queries + row * kQueryStrideBytes;
    if (kBf16Scores == Product::kDotBf16 && work.layout.type == DataType::kBF16) {
      auto* rounded = reinterpret_cast<std::uint16_t*>(scaled);
      for (std::size_t d = 0; d < head_dim; ++d) rounded[d] = scalar_bf16(query[d] * work.scale);
    } else {
      auto* exact = reinterpret_cast<float*>(scaled);
      for (std::size_t d = 0; d < head_dim; ++d) exact[d] = query[d] * work.scale;
    }
  }
}

inline void begin_split(std::size_t num_rows, std::size_t num_columns, AttentionRows& state) {
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t d = 0; d < num_columns; d += kLanes) store(state.sums + row * kSumStride + d, VecF{});
    store(state.totals + row * kLanes, VecF{});
    state.highest[row] = -__builtin_inff();
  }
}

// A row's sums in order, followed by the highest score and the total.
template <DataType kType>
void end_split(std::size_t row, std::size_t num_columns, AttentionRows& state) {
  float* sums = state.sums + row * kSumStride;
  constexpr std::size_t kPair = 2 * kLanes;
  for (std::size_t d = 0; kType == DataType::kBF16 && d + kPair <= num_columns; d += kPair) {
    const VecF even = load(sums + d), odd = load(sums + d + kLanes);
    store(sums + d, interleave_lanes<false>(even, odd));
    store(sums + d + kLanes, interleave_lanes<true>(even, odd));
  }
  sums[num_columns] = state.highest[row];
  sums[num_columns + 1] = sum_of_lanes(load(state.totals + row * kLanes));
}

template <DataType kType>
void attend_rows(const AttentionWork& work, std::size_t first_head, std::size_t heads,
                 std::size_t first_token, std::size_t tokens) {
  AttentionRows state;
  MergedRow merged[kMaxAttentionRows];
  OpenedPage opened;  // unused unless pages are in 8 bits
  const std::size_t num_rows = tokens * heads, num_columns = padded_head_dim(work.layout.head_dim);
  const std::size_t num_pages = (seen_by(work, first_token + tokens - 1).end - 1) / kKvPageTokens + 1;
  // The first row's window begins first.
  std::size_t index = seen_by(work, first_token).begin / kKvPageTokens, end_page = num_pages;
  const bool is_part = work.split != kAllSplits;
  if (is_part) {
    const std::size_t first_page = work.split * kPagesOfSplit;
    index = index > first_page ? index : first_page;
    end_page = end_page < first_page + kPagesOfSplit ? end_page : first_page + kPagesOfSplit;
    if (index >= end_page) return;  // no row's window overlaps it
  }
  load_queries(work, first_head, heads, first_token, tokens, state);
  for (std::size_t row = 0; row < num_rows && !is_part; ++row)
    begin_row(work, first_head + row % heads, merged[row]);
  while (index < end_page) {
    const std::size_t split = index / kPagesOfSplit, next_split = (split + 1) * kPagesOfSplit;
    begin_split(num_rows, num_columns, state);
    for (; index < end_page && index < next_split; ++index) {
      for (std::size_t row = 0; row < num_rows; ++row) {
        const SeenTokens seen = seen_by(work, first_token + row / heads);
        const std::size_t begin = index * kKvPageTokens, left = seen.end - begin;
        state.visible[row] = seen.end <= begin ? 0 : left < kKvPageTokens ? left : kKvPageTokens;
        state.hidden[row] = seen.begin > begin ? seen.begin - begin : 0;
      }
      PageView page = view_page(work, index, num_pages);
      if (work.layout.kv_type == KvType::kQ8) page = open_page(work, page, opened);
      attend_to_page<kType>(work.layout, page, state, num_rows, work.soft_cap);
    }
    for (std::size_t row = 0; row < num_rows; ++row) {
      const std::size_t token = first_token + row / heads, head = first_head + row % heads;
      if (!seen_by(work, token).overlaps(split)) continue;
      end_split<kType>(row, num_columns, state);
      const float* sums = state.sums + row * kSumStride;
      if (is_part) {
        __builtin_memcpy(partial_of(work, split, token, head), sums, (num_columns + 2) * sizeof(float));
      } else {
        merge_split(num_columns, sums, merged[row]);
      }
    }
  }
  if (is_part) return;
  for (std::size_t row = 0; row < num_rows; ++row)
    store_attended(work, first_token + row / heads, first_head + row % heads, merged[row]);
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
