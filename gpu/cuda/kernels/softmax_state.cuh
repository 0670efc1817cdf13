// SPDX-License-Identifier: Apache-2.0
// The state of an online softmax: the highest score so far and the sum of
// exp(score - highest). Milakov and Gimelshein, "Online normalizer calculation
// for softmax" (2018).
#pragma once

#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

struct SoftmaxState {
  float highest;
  float sum;
};

// Nothing seen yet.
inline constexpr float kLowest = -__builtin_inff();

// exp(from - to), 0 where there is nothing: kLowest - kLowest has no value.
__device__ __forceinline__ float rescale(float from, float to) {
  return from == kLowest ? 0.0F : __expf(from - to);
}

}  // namespace troupe::cuda
