// SPDX-License-Identifier: Apache-2.0
// x += residual + bias, the beginning of both norms.
#pragma once

#include "gpu/cuda/kernels/eight.cuh"

namespace troupe::cuda {

template <typename T>
struct ResidualRow {
  float* x;           // written back unless there is nothing to add
  const T* residual;  // or none
  const float* bias;  // or none
  unsigned width;
  bool is_x_aligned;
  bool is_residual_aligned;
  bool is_bias_aligned;

  // Elements [first, first + 8) after the addition.
  __device__ __forceinline__ Eight add_and_load(unsigned first) const {
    Eight sum = load_eight(x, first, width, is_x_aligned);
    if (residual == nullptr && bias == nullptr) return sum;
    if (residual != nullptr) add(load_eight(residual, first, width, is_residual_aligned), sum);
    if (bias != nullptr) add(load_eight(bias, first, width, is_bias_aligned), sum);
    store_eight(x, first, width, is_x_aligned, sum);
    return sum;
  }
  __device__ __forceinline__ Eight load(unsigned first) const {
    return load_eight(x, first, width, is_x_aligned);
  }

 private:
  static __device__ __forceinline__ void add(const Eight& part, Eight& sum) {
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) sum.v[i] += part.v[i];
  }
};

}  // namespace troupe::cuda
