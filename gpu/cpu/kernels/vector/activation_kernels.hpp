// SPDX-License-Identifier: Apache-2.0
// Functions of one element, and the kernels that apply them to a row.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

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

// x σ(1.702 x) of at most 7; NaN stays NaN.
inline VecF clamped_swish(VecF x) {
  const VecF low = x > 7.0F ? broadcast(7.0F) : x;
  return low / (exponential(low * -1.702F) + 1.0F);
}

inline VecF silu(VecF x) { return x / (exponential(-x) + 1.0F); }

// cap * tanh(x / cap), for scores and logits.
inline VecF capped(VecF x, float cap) { return hyperbolic_tangent(x / cap) * cap; }

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
    case Activation::kSilu: return map_row(x, h, h_type, width, [](VecF value) { return silu(value); });
    case Activation::kClampedSwish:
      return map_row(x, h, h_type, width, [](VecF value) { return clamped_swish(value); });
  }
}

template <class Function>
inline void map_gate(const float* gate, const float* up, void* h, DataType h_type, std::size_t width,
                     Function function) {
  for (std::size_t i = 0; i < width; i += kLanes) {
    const std::size_t lanes = width - i < kLanes ? width - i : kLanes;
    store_row(h_type, h, i, function(load_lanes(gate + i, lanes), load_lanes(up + i, lanes)), lanes);
  }
}

inline void activate(Activation activation, const float* gate, const float* up, void* h, DataType h_type,
                     std::size_t width) {
  if (activation == Activation::kGeluTanh)
    return map_gate(gate, up, h, h_type, width, [](VecF x, VecF y) { return gelu_tanh(x) * y; });
  if (activation == Activation::kClampedSwish) {
    return map_gate(gate, up, h, h_type, width, [](VecF x, VecF y) {
      const VecF low = y > 7.0F ? broadcast(7.0F) : y;
      return clamped_swish(x) * ((low < -7.0F ? broadcast(-7.0F) : low) + 1.0F);
    });
  }
  map_gate(gate, up, h, h_type, width, [](VecF x, VecF y) { return silu(x) * y; });
}

inline void soft_cap(float cap, float* x, std::size_t width) {
  map_row(x, x, DataType::kF32, width, [cap](VecF value) { return capped(value, cap); });
}

}  // namespace
}  // namespace troupe
