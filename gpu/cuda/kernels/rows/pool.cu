// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/pool.hpp"

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kPoolThreads = 256;

// `first` is the column's element in the slice's first row.
__device__ __forceinline__ float pooled_column(const PoolArguments& a, const float* first,
                                               std::uint32_t num_tokens) {
  if (a.mode == PoolingMode::kCls) return *first;
  if (a.mode == PoolingMode::kLast) return first[(num_tokens - 1) * std::size_t{a.width}];
  float value = *first;
  for (std::uint32_t i = 1; i < num_tokens; ++i) {
    const float next = first[i * std::size_t{a.width}];
    if (a.mode == PoolingMode::kMax) {
      value = next > value ? next : value;
    } else {
      value += next;
    }
  }
  return a.mode == PoolingMode::kMax ? value : value / static_cast<float>(num_tokens);
}

// A block has a slice, a thread every kPoolThreads-th column.
__global__ void __launch_bounds__(kPoolThreads) pool_kernel(const PoolArguments a) {
  __shared__ ReductionScratch<float, 1> scratch;
  const BatchRows slice = a.slices[blockIdx.x];
  const float* x = a.x + slice.first_token * std::size_t{a.width};
  float* vector = a.vectors + blockIdx.x * std::size_t{a.width};
  float squares[1] = {0.0F};
  for (unsigned column = threadIdx.x; column < a.width; column += kPoolThreads) {
    const float value = pooled_column(a, x + column, slice.num_tokens - slice.num_padding);
    vector[column] = value;
    squares[0] += value * value;
  }
  if (!a.normalizes) return;
  reduce_block(squares, 0.0F, Add{}, scratch);
  const float length = fmaxf(sqrtf(squares[0]), 1e-12F);
  for (unsigned column = threadIdx.x; column < a.width; column += kPoolThreads) vector[column] /= length;
}

}  // namespace

void launch_pool(const PoolArguments& arguments, StreamHandle stream) {
  if (arguments.num_slices == 0 || arguments.width == 0) return;
  launch(pool_kernel, {.grid = arguments.num_slices, .block = kPoolThreads}, stream, arguments);
}

}  // namespace troupe::cuda
