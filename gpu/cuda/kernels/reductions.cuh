// SPDX-License-Identifier: Apache-2.0
// Sums over a warp or a block of several rows at once, after TurboTransformers'
// batch reduction (§4.1.2): the shuffles of the rows stand side by side and hide
// each other's latency, and one barrier serves all rows.
//
// Every lane gets the same bits: lane 0's. Blocks are whole warps.
#pragma once

#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

// Scratch of one reduction of a block; used again only behind a barrier.
template <typename Value, int kRows>
struct ReductionScratch {
  Value of_warps[kRows][kWarpLanes];
};

template <typename Number>
requires std::is_arithmetic_v<Number> __device__ __forceinline__ Number shuffle_down(Number value,
                                                                                     unsigned distance) {
  return __shfl_down_sync(kAllLanes, value, distance);
}
template <typename Number>
requires std::is_arithmetic_v<Number> __device__ __forceinline__ Number shuffle_from_first(Number value) {
  return __shfl_sync(kAllLanes, value, 0);
}

// `Merge` is associative up to rounding: merge(Value left, Value right).
// Other types of Value bring their own shuffle_down and shuffle_from_first.
template <int kRows, typename Value, typename Merge>
__device__ __forceinline__ void reduce_warp(Value (&values)[kRows], Merge merge) {
#pragma unroll
  for (unsigned distance = kWarpLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) values[r] = merge(values[r], shuffle_down(values[r], distance));
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) values[r] = shuffle_from_first(values[r]);
}

// `none` is what merge leaves the other side with.
template <int kRows, typename Value, typename Merge>
__device__ __forceinline__ void reduce_block(Value (&values)[kRows], const Value& none, Merge merge,
                                             ReductionScratch<Value, kRows>& scratch) {
  reduce_warp(values, merge);
  const unsigned num_warps = blockDim.x / kWarpLanes;
  if (num_warps == 1) return;
  const unsigned lane = threadIdx.x % kWarpLanes;
  if (lane == 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) scratch.of_warps[r][threadIdx.x / kWarpLanes] = values[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRows; ++r) values[r] = lane < num_warps ? scratch.of_warps[r][lane] : none;
  reduce_warp(values, merge);
}

struct Add {
  template <typename Number>
  __device__ __forceinline__ Number operator()(Number left, Number right) const {
    return left + right;
  }
};
struct Larger {
  template <typename Number>
  __device__ __forceinline__ Number operator()(Number left, Number right) const {
    return left > right ? left : right;
  }
};

}  // namespace troupe::cuda
