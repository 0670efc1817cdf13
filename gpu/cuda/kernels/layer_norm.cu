// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/layer_norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/moments.cuh"
#include "gpu/cuda/kernels/norm_shape.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/residual_row.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__device__ __forceinline__ ResidualRow<T> row_of(const LayerNormArguments& a, std::size_t row) {
  const auto* residual = static_cast<const T*>(a.residual);
  return {.x = a.x + row * a.x_stride,
          .residual = residual == nullptr ? nullptr : residual + row * a.residual_stride,
          .bias = a.residual_bias,
          .width = a.width,
          .is_x_aligned = are_rows_aligned(a.x, a.x_stride),
          .is_residual_aligned = are_rows_aligned(residual, a.residual_stride),
          .is_bias_aligned = are_rows_aligned(a.residual_bias, 0)};
}

template <typename T>
__device__ __forceinline__ void store_normed(const LayerNormArguments& a, std::size_t row,
                                             unsigned first, const Eight& x, float mean,
                                             float scale) {
  const Eight weight = load_eight(a.weight, first, a.width, are_rows_aligned(a.weight, 0));
  Eight normed = load_eight(a.bias, first, a.width, are_rows_aligned(a.bias, 0));
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) normed.v[i] += (x.v[i] - mean) * scale * weight.v[i];
  auto* to = static_cast<T*>(a.normed);
  store_eight(to + row * a.normed_stride, first, a.width, are_rows_aligned(to, a.normed_stride),
              normed);
}

// Laid out as rms_norm_kernel.
template <typename T, int kRows>
__global__ void __launch_bounds__(kMaxNormThreads) layer_norm_kernel(const LayerNormArguments a) {
  __shared__ ReductionScratch<Moments, kRows> scratch;
  const std::size_t first_row = std::size_t{blockIdx.x} * kRows;
  const unsigned first = threadIdx.x * kEight;
  const unsigned step = blockDim.x * kEight;
  Eight kept[kRows];
  Moments moments[kRows] = {};
  for (unsigned column = first; column < a.width; column += step) {
    const unsigned count = min(kEight, a.width - column);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first_row + r >= a.num_rows) continue;
      const Eight x = row_of<T>(a, first_row + r).add_and_load(column);
      if (column == first) kept[r] = x;
      moments[r] = MergeMoments{}(moments[r], moments_of(x, count));
    }
  }
  reduce_block(moments, Moments{}, MergeMoments{}, scratch);
  for (unsigned column = first; column < a.width; column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first_row + r >= a.num_rows) continue;
      const Eight x = column == first ? kept[r] : row_of<T>(a, first_row + r).load(column);
      const float variance = moments[r].squares / static_cast<float>(a.width);
      store_normed<T>(a, first_row + r, column, x, moments[r].mean, rsqrtf(variance + a.epsilon));
    }
  }
}

}  // namespace

void launch_layer_norm(const LayerNormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    using T = decltype(element);
    launch_rows(layer_norm_kernel<T, 1>, layer_norm_kernel<T, kRowsTogether>, arguments, stream);
  });
}

}  // namespace troupe::cuda
