// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rms_norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/norm_shape.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/residual_row.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__device__ __forceinline__ ResidualRow<T> row_of(const RmsNormArguments& a, std::size_t row) {
  const auto* residual = static_cast<const T*>(a.residual);
  return {.x = a.x + row * a.x_stride,
          .residual = residual == nullptr ? nullptr : residual + row * a.residual_stride,
          .bias = nullptr,
          .width = a.width,
          .is_x_aligned = are_rows_aligned(a.x, a.x_stride),
          .is_residual_aligned = are_rows_aligned(residual, a.residual_stride),
          .is_bias_aligned = false};
}

template <typename T>
__device__ __forceinline__ void store_normed(const RmsNormArguments& a, std::size_t row,
                                             unsigned first, const Eight& x, float scale) {
  Eight normed = load_eight(a.weight, first, a.width, are_rows_aligned(a.weight, 0));
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) normed.v[i] *= x.v[i] * scale;
  auto* to = static_cast<T*>(a.normed);
  store_eight(to + row * a.normed_stride, first, a.width, are_rows_aligned(to, a.normed_stride),
              normed);
}

// A block has kRows rows and a thread eight columns of each, in steps of the
// block's size; those of the first step stay in registers.
template <typename T, int kRows>
__global__ void __launch_bounds__(kMaxNormThreads) rms_norm_kernel(const RmsNormArguments a) {
  __shared__ ReductionScratch<float, kRows> scratch;
  const std::size_t first_row = std::size_t{blockIdx.x} * kRows;
  const unsigned first = threadIdx.x * kEight;
  const unsigned step = blockDim.x * kEight;
  Eight kept[kRows];
  float squares[kRows] = {};
  for (unsigned column = first; column < a.width; column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first_row + r >= a.num_rows) continue;
      const Eight x = row_of<T>(a, first_row + r).add_and_load(column);
      if (column == first) kept[r] = x;
#pragma unroll
      for (unsigned i = 0; i < kEight; ++i) squares[r] += x.v[i] * x.v[i];
    }
  }
  reduce_block(squares, 0.0F, Add{}, scratch);
  for (unsigned column = first; column < a.width; column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first_row + r >= a.num_rows) continue;
      const Eight x = column == first ? kept[r] : row_of<T>(a, first_row + r).load(column);
      const float scale = rsqrtf(squares[r] / static_cast<float>(a.width) + a.epsilon);
      store_normed<T>(a, first_row + r, column, x, scale);
    }
  }
}

}  // namespace

void launch_rms_norm(const RmsNormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    using T = decltype(element);
    launch_rows(rms_norm_kernel<T, 1>, rms_norm_kernel<T, kRowsTogether>, arguments, stream);
  });
}

}  // namespace troupe::cuda
