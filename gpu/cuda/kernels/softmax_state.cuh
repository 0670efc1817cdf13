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

__device__ __forceinline__ SoftmaxState merge_softmax(const SoftmaxState& left, const SoftmaxState& right) {
  const float highest = fmaxf(left.highest, right.highest);
  return {highest, left.sum * rescale(left.highest, highest) + right.sum * rescale(right.highest, highest)};
}

__device__ __forceinline__ SoftmaxState shuffle_down(const SoftmaxState& s, unsigned distance) {
  return {__shfl_down_sync(kAllLanes, s.highest, distance), __shfl_down_sync(kAllLanes, s.sum, distance)};
}
__device__ __forceinline__ SoftmaxState shuffle_from_first(const SoftmaxState& s) {
  return {__shfl_sync(kAllLanes, s.highest, 0), __shfl_sync(kAllLanes, s.sum, 0)};
}

}  // namespace troupe::cuda
