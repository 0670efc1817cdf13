// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/activation.hpp"

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"
#include "gpu/cuda/kernels/rows/silu.cuh"

namespace troupe::cuda {
namespace {

__device__ __forceinline__ float gelu(float v, GeluForm form) {
  constexpr float kRootHalf = 0.70710678F;
  constexpr float kRootTwoOverPi = 0.79788456F;
  const float inner =
      form == GeluForm::kErf ? erff(v * kRootHalf) : tanhf(kRootTwoOverPi * (v + 0.044715F * v * v * v));
  return 0.5F * v * (1.0F + inner);
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads) gated_activation_kernel(const GatedActivationArguments a) {
  const Place place = place_of_thread(a.width);
  if (place.row >= a.num_rows) return;
  const T* gate = static_cast<const T*>(a.gate_up) + place.row * a.gate_up_stride;
  const T* up = gate + a.width;
  const bool is_aligned = are_rows_aligned(static_cast<const T*>(a.gate_up), a.gate_up_stride);
  const Eight g = load_eight(gate, place.column, a.width, is_aligned);
  Eight h = load_eight(up, place.column, a.width, is_aligned && are_rows_aligned(up, 0));
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) h.v[i] *= silu(g.v[i]);
  T* to = static_cast<T*>(a.h);
  store_eight(to + place.row * a.h_stride, place.column, a.width, are_rows_aligned(to, a.h_stride), h);
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads) bias_gelu_kernel(const BiasGeluArguments a) {
  const Place place = place_of_thread(a.width);
  if (place.row >= a.num_rows) return;
  const T* x = static_cast<const T*>(a.x);
  Eight h = load_eight(x + place.row * a.x_stride, place.column, a.width, are_rows_aligned(x, a.x_stride));
  if (a.bias != nullptr) {
    const Eight bias = load_eight(a.bias, place.column, a.width, are_rows_aligned(a.bias, 0));
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) h.v[i] += bias.v[i];
  }
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) h.v[i] = gelu(h.v[i], a.form);
  T* to = static_cast<T*>(a.h);
  store_eight(to + place.row * a.h_stride, place.column, a.width, are_rows_aligned(to, a.h_stride), h);
}

}  // namespace

void launch_gated_activation(const GatedActivationArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(gated_activation_kernel<decltype(element)>, arguments, stream);
  });
}

void launch_bias_gelu(const BiasGeluArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(bias_gelu_kernel<decltype(element)>, arguments, stream);
  });
}

}  // namespace troupe::cuda
