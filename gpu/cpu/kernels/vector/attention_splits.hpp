// SPDX-License-Identifier: Apache-2.0
// Results of splits (kSplitTokens keys) and how a row merges them: in order, each into what
// all before it came to, so that bits don't depend on the thread that computed a split. Merging
// into the empty result is exact: a context of one split has the bits of that split.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

constexpr std::size_t kSumStride = kMaxHeadDim + 16;  // floats
constexpr std::size_t kPagesOfSplit = kSplitTokens / kKvPageTokens;

struct SeenTokens {
  std::size_t begin = 0, end = 0;  // positions

  bool overlaps(std::size_t split) const {
    const std::size_t first = split * kSplitTokens, last = first + kSplitTokens;
    return (begin > first ? begin : first) < (end < last ? end : last);
  }
};

inline SeenTokens seen_by(const AttentionWork& work, std::size_t token) {
  const std::size_t end = work.num_visible != 0 ? work.num_visible : work.first_position + token + 1;
  const std::size_t left = work.window != 0 && end > work.window ? end - work.window : 0;
  return {.begin = left > work.num_hidden ? left : work.num_hidden, .end = end};
}

// A row's softmax and weighted sum.
struct MergedRow {
  alignas(64) float sums[kSumStride];
  float highest;
  float total;
};

// Nothing is seen yet, or only the head's sink: as if a score of that height had no value.
inline void begin_row(const AttentionWork& work, std::size_t head, MergedRow& row) {
  for (std::size_t d = 0; d < padded_head_dim(work.layout.head_dim); ++d) row.sums[d] = 0.0F;
  row.highest = work.sinks == nullptr ? -__builtin_inff() : work.sinks[head];
  row.total = work.sinks == nullptr ? 0.0F : 1.0F;
}

// `sums` are followed by the highest score and the total, as in AttentionWork::partials.
inline void merge_split(std::size_t num_columns, const float* sums, MergedRow& row) {
  const VecF before = broadcast(row.highest), of_split = broadcast(sums[num_columns]);
  const VecF highest = maximum(of_split, before);
  const VecF kept = exponential(before - highest), added = exponential(of_split - highest);
  const VecF total = fma(broadcast(sums[num_columns + 1]), added, broadcast(row.total) * kept);
  for (std::size_t d = 0; d < num_columns; d += kLanes)
    store(row.sums + d, fma(load(sums + d), added, load(row.sums + d) * kept));
  row.highest = highest[0];
  row.total = total[0];
}

inline void store_attended(const AttentionWork& work, std::size_t token, std::size_t head,
                           const MergedRow& row) {
  const std::size_t head_dim = work.layout.head_dim;
  const std::size_t offset = token * work.attended_stride + head * head_dim;
  const float inverse = 1.0F / row.total;
  if (work.attended_type == DataType::kF32) {
    float* out = static_cast<float*>(work.attended) + offset;
    for (std::size_t d = 0; d < head_dim; ++d) out[d] = row.sums[d] * inverse;
  } else {
    auto* out = static_cast<std::uint16_t*>(work.attended) + offset;
    for (std::size_t d = 0; d < head_dim; ++d) out[d] = scalar_bf16(row.sums[d] * inverse);
  }
}

inline float* partial_of(const AttentionWork& work, std::size_t split, std::size_t token, std::size_t head) {
  const std::size_t row = token * work.num_group_heads + head;
  return work.partials + split * work.split_stride + row * partial_floats(work.layout.head_dim);
}

inline void merge_splits(const AttentionWork& work) {
  MergedRow row;
  for (std::size_t token = 0; token < work.num_tokens; ++token) {
    const SeenTokens seen = seen_by(work, token);
    for (std::size_t head = 0; head < work.num_group_heads; ++head) {
      begin_row(work, head, row);
      for (std::size_t split = seen.begin / kSplitTokens; split * kSplitTokens < seen.end; ++split) {
        if (!seen.overlaps(split)) continue;
        merge_split(padded_head_dim(work.layout.head_dim), partial_of(work, split, token, head), row);
      }
      store_attended(work, token, head, row);
    }
  }
}

}  // namespace
}  // namespace troupe
