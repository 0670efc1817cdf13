// SPDX-License-Identifier: Apache-2.0
// Kernels of encoders, each for one row, one head or one sequence.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

inline VecF keep_first(VecF value, std::size_t lanes) {
  return kLaneIndex < static_cast<std::int32_t>(lanes) ? value : VecF{};
}

// Four vectors of sums, taken in turn, added in one order.
struct RowSum {
  VecF sums[4] = {};
  float total() const { return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])); }
};

// normed = x (+ residual); returns the mean.
inline float copy_and_average(const LayerNormRow& row) {
  RowSum sum;
  for (std::size_t i = 0, turn = 0; i < row.width; i += kLanes, turn = (turn + 1) % 4) {
    const std::size_t lanes = row.width - i < kLanes ? row.width - i : kLanes;
    VecF x = load_lanes(row.x + i, lanes);
    if (row.residual != nullptr) x += load_lanes(row.residual + i, lanes);
    store_row(DataType::kF32, row.normed, i, x, lanes);
    sum.sums[turn] += x;
  }
  return sum.total() / static_cast<float>(row.width);
}

// Variance from squares of distances, so that a large mean costs no digits.
inline float variance_of(const float* x, std::size_t width, float mean) {
  RowSum sum;
  for (std::size_t i = 0, turn = 0; i < width; i += kLanes, turn = (turn + 1) % 4) {
    const std::size_t lanes = width - i < kLanes ? width - i : kLanes;
    const VecF distance = keep_first(load_lanes(x + i, lanes) - mean, lanes);
    sum.sums[turn] = fma(distance, distance, sum.sums[turn]);
  }
  return sum.total() / static_cast<float>(width);
}

inline void normalize_layer(const LayerNormRow& row) {
  const float mean = copy_and_average(row);
  const float scale = 1.0F / __builtin_sqrtf(variance_of(row.normed, row.width, mean) + row.epsilon);
  for (std::size_t i = 0; i < row.width; i += kLanes) {
    const std::size_t lanes = row.width - i < kLanes ? row.width - i : kLanes;
    const VecF distance = (load_lanes(row.normed + i, lanes) - mean) * scale;
    const VecF value = fma(distance, load_lanes(row.weight + i, lanes), load_lanes(row.bias + i, lanes));
    store_row(DataType::kF32, row.normed, i, value, lanes);
    if (row.rounded != nullptr) store_row(DataType::kBF16, row.rounded, i, value, lanes);
  }
}

inline void add_row(DataType type, const void* row, float* sum, std::size_t width) {
  for_each_vector(type, row, width, [&](VecF value, std::size_t first, std::size_t lanes) {
    store_row(DataType::kF32, sum, first, load_lanes(sum + first, lanes) + value, lanes);
  });
}

inline void pack_head(const HeadToPack& head) {
  for (std::size_t t = 0; t < head.num_tokens; ++t) {
    std::byte* block = head.pages + t / kKvPageTokens * kv_block_bytes(head.layout);
    const std::size_t slot = t % kKvPageTokens;
    append_key(head.keys + t * head.stride, slot, head.layout, block);
    float* value = reinterpret_cast<float*>(block) + kv_value_element(head.layout, slot, 0);
    const float* from = head.values + t * head.stride;
    const std::size_t head_dim = head.layout.head_dim;
    __builtin_memcpy(value, from, head_dim * 4);
    for (std::size_t d = head_dim; d < padded_head_dim(head_dim); ++d) value[d] = 0.0F;
  }
}

inline void pool(const RowsToPool& rows) {
  RowSum squares;
  const float count = static_cast<float>(rows.num_rows);
  for (std::size_t i = 0, turn = 0; i < rows.width; i += kLanes, turn = (turn + 1) % 4) {
    const std::size_t lanes = rows.width - i < kLanes ? rows.width - i : kLanes;
    VecF value = load_lanes(rows.x + i, lanes);
    for (std::size_t row = 1; row < rows.num_rows; ++row) {
      const VecF next = load_lanes(rows.x + row * rows.x_stride + i, lanes);
      value = rows.takes_largest ? (next > value ? next : value) : value + next;
    }
    if (!rows.takes_largest) value /= count;
    squares.sums[turn] = fma(value, value, squares.sums[turn]);
    store_row(DataType::kF32, rows.vector, i, value, lanes);
  }
  if (!rows.normalizes) return;
  const float length = __builtin_sqrtf(squares.total());
  const float scale = 1.0F / (length > 1e-12F ? length : 1e-12F);
  for (std::size_t i = 0; i < rows.width; i += kLanes) {
    const std::size_t lanes = rows.width - i < kLanes ? rows.width - i : kLanes;
    store_row(DataType::kF32, rows.vector, i, load_lanes(rows.vector + i, lanes) * scale, lanes);
  }
}

}  // namespace
}  // namespace troupe
