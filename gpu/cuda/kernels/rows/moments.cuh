// SPDX-License-Identifier: Apache-2.0
// Count, mean and sum of squares around the mean of some numbers, mergeable
// without cancellation: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances" (1979).
#pragma once

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

struct Moments {
  float count;
  float mean;
  float squares;  // sum of (x - mean)²
};

// Moments of the first `count` of eight numbers.
__device__ __forceinline__ Moments moments_of(const Eight& x, unsigned count) {
  float sum = 0.0F;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) sum += i < count ? x.v[i] : 0.0F;
  const float mean = sum / static_cast<float>(count);
  float squares = 0.0F;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) {
    const float distance = i < count ? x.v[i] - mean : 0.0F;
    squares += distance * distance;
  }
  return {static_cast<float>(count), mean, squares};
}

__device__ __forceinline__ Moments merge_moments(const Moments& left, const Moments& right) {
  const float count = left.count + right.count;
  if (count == 0.0F) return left;
  const float share = right.count / count;
  const float distance = right.mean - left.mean;
  return {count, left.mean + distance * share,
          left.squares + right.squares + distance * distance * left.count * share};
}

__device__ __forceinline__ Moments shuffle_down(const Moments& m, unsigned distance) {
  return {__shfl_down_sync(kAllLanes, m.count, distance), __shfl_down_sync(kAllLanes, m.mean, distance),
          __shfl_down_sync(kAllLanes, m.squares, distance)};
}
__device__ __forceinline__ Moments shuffle_from_first(const Moments& m) {
  return {m.count, __shfl_sync(kAllLanes, m.mean, 0), __shfl_sync(kAllLanes, m.squares, 0)};
}

}  // namespace troupe::cuda
