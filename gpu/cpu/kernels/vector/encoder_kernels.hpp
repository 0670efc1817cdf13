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

// x Φ(x) within 1e-7 of the larger of 1 and |x|. For x <= 0, Φ(x) = erfc(z) / 2 with
// z = -x / √2, and erfc(z) = exp(-z²) p(t), t = 1 / (1 + 0.4 z), where p is a polynomial
// fitted to 1.2e-7 of the value on [0, 10]; for x > 0, Φ(x) = 1 - Φ(-x).
inline VecF gelu(VecF x) {
  constexpr float kHalfOfP[] = {3.54365402e-5F, 0.112060979F, 0.120106421F,  0.0658396557F, 0.207212776F,
                                -0.183175236F,  0.333076239F, -0.190491855F, 0.0353355482F};
  const VecF magnitude = x < 0.0F ? -x : x;
  const VecF t = 1.0F / fma(magnitude, broadcast(0.4F * 0.707106781F), broadcast(1.0F));
  VecF p = broadcast(kHalfOfP[8]);
#pragma GCC unroll 8
  for (int i = 7; i >= 0; --i) p = fma(p, t, broadcast(kHalfOfP[i]));
  const VecF tail = p * exponential(x * x * -0.5F);  // Φ(-|x|)
  return x < 0.0F ? x * tail : x - x * tail;
}

// x σ(2u), u = √(2/π) (x + 0.044715 x³), which is 0.5 x (1 + tanh u).
inline VecF gelu_tanh(VecF x) {
  const VecF u = x * fma(x * x, broadcast(0.0356774081F), broadcast(0.797884561F));
  const VecF small = exponential((u < 0.0F ? u : -u) * 2.0F);  // in [0, 1]
  return x * ((u < 0.0F ? small : broadcast(1.0F)) / (1.0F + small));
}

inline VecF hyperbolic_tangent(VecF x) {
  const VecF small = exponential((x < 0.0F ? x : -x) * 2.0F);  // in [0, 1]
  const VecF magnitude = (1.0F - small) / (1.0F + small);
  return x < 0.0F ? -magnitude : magnitude;
}

template <class Function>
inline void map_row(const float* x, void* h, DataType h_type, std::size_t width, Function function) {
  for (std::size_t i = 0; i < width; i += kLanes) {
    const std::size_t lanes = width - i < kLanes ? width - i : kLanes;
    store_row(h_type, h, i, function(load_lanes(x + i, lanes)), lanes);
  }
}

inline void activate_row(Activation activation, const float* x, void* h, DataType h_type, std::size_t width) {
  switch (activation) {
    case Activation::kNone: return map_row(x, h, h_type, width, [](VecF value) { return value; });
    case Activation::kGelu: return map_row(x, h, h_type, width, [](VecF value) { return gelu(value); });
    case Activation::kGeluTanh:
      return map_row(x, h, h_type, width, [](VecF value) { return gelu_tanh(value); });
    case Activation::kRelu:  // NaN stays NaN
      return map_row(x, h, h_type, width, [](VecF value) { return value < 0.0F ? VecF{} : value; });
    case Activation::kTanh:
      return map_row(x, h, h_type, width, [](VecF value) { return hyperbolic_tangent(value); });
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
