// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/activate.hpp"

#include <stdexcept>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"
#include "gpu/cuda/kernels/rows/silu.cuh"

namespace troupe::cuda {
namespace {

// erfc and not 1 + erf, which has no digits left where v is far below 0.
__device__ __forceinline__ float gelu(float v) { return 0.5F * v * erfcf(v * -0.70710678F); }

__device__ __forceinline__ float gelu_tanh(float v) {
  constexpr float kRootTwoOverPi = 0.79788456F;
  return 0.5F * v * (1.0F + tanhf(kRootTwoOverPi * (v + 0.044715F * v * v * v)));
}

__device__ __forceinline__ float clamped_swish(float v) {
  const float y = v > 7.0F ? 7.0F : v;  // NaN stays
  return y / (1.0F + expf(-1.702F * y));
}

__device__ __forceinline__ float activated(Activation activation, float v) {
  switch (activation) {
    case Activation::kNone: return v;
    case Activation::kGelu: return gelu(v);
    case Activation::kGeluTanh: return gelu_tanh(v);
    case Activation::kRelu: return v < 0.0F ? 0.0F : v;  // NaN stays
    case Activation::kTanh: return tanhf(v);
    case Activation::kSilu: return silu(v);
    case Activation::kClampedSwish: return clamped_swish(v);
  }
  return v;
}

template <typename X, typename H>
__global__ void __launch_bounds__(kElementThreads) activate_kernel(const ActivateArguments a) {
  const Place place = place_of_thread(a.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (place.row >= a.num_rows) return;
  const X* x = static_cast<const X*>(a.x);
  H* h = static_cast<H*>(a.h);
  Eight values = load_eight(x + place.row * a.width, place.column, a.width, are_rows_aligned(x, a.width));
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) values.v[i] = activated(a.activation, values.v[i]);
  store_eight(h + place.row * a.width, place.column, a.width, are_rows_aligned(h, a.width), values);
}

}  // namespace

void launch_activate(const ActivateArguments& arguments, StreamHandle stream) {
  if (arguments.x_type != DataType::kF32 && arguments.x_type != arguments.h_type)
    throw std::invalid_argument("what is activated is f32 or of its result's type");
  with_element_type(arguments.h_type, [&](auto element) {
    using H = decltype(element);
    launch_elements(arguments.x_type == DataType::kF32 ? activate_kernel<float, H> : activate_kernel<H, H>,
                    arguments, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
