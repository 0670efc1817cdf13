// SPDX-License-Identifier: Apache-2.0
// Which weights of a row may be drawn: all above some weight, and the first few
// (by id) of those that equal it. Found by radix selection over the bits of the
// weights, which order positive floats: four passes with a histogram in shared
// memory (Alabi et al., 2012, "Fast k-selection algorithms for graphics
// processing units"), over numbers of weights (top_k) or their mass (top_p).
#pragma once

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/sampling/row_walk.cuh"

namespace troupe::cuda {

// Sums of weights in whole numbers: the same in every order. Weights are at most
// 1, so 2^18 of them are still far from an overflow; what is below 2^-44 is 0.
using Mass = unsigned long long;
__device__ __forceinline__ Mass mass_of(float weight) { return static_cast<Mass>(weight * 0x1p44F); }

// Weights of a row: exp((logit - highest) / temperature), stored in the logits' place or,
// where the logits are needed later, computed when asked for: the same bits.
struct RowWeights {
  const float* values;
  float highest;
  float inverse_temperature;
  bool are_stored;
  __device__ __forceinline__ float operator[](unsigned i) const {
    return are_stored ? values[i] : expf((values[i] - highest) * inverse_temperature);
  }
};

struct WeightCut {
  unsigned bits = 0;  // of the lowest weight that stays; weights of 0 never do
  unsigned ties = 0;  // how many of those that equal it
};

__device__ __forceinline__ WeightCut stricter(const WeightCut& left, const WeightCut& right) {
  if (left.bits != right.bits) return left.bits > right.bits ? left : right;
  return left.ties < right.ties ? left : right;
}

inline constexpr unsigned kBuckets = 256;

// Sums by bucket, in shared memory, of whole numbers of 64 bits in two words each: a GPU adds
// words there in one instruction, 64 bits in a loop that tries until no thread was in between. Some
// copies, as most weights of a row share a few exponents.
struct Histogram {
  static constexpr unsigned kCopies = 8;  // each of every eighth warp
  unsigned low[kCopies][kBuckets];
  unsigned high[kCopies][kBuckets];
  Mass sums[kBuckets];  // of all copies, after finish()

  // clear() and finish() are called by the whole block; sums are there after finish().
  __device__ __forceinline__ void clear() {
    for (unsigned i = threadIdx.x; i < kCopies * kBuckets; i += blockDim.x) {
      low[i / kBuckets][i % kBuckets] = 0;
      high[i / kBuckets][i % kBuckets] = 0;
    }
    __syncthreads();
  }
  // Any threads. The sum is exact in every order: the addition that makes the low word begin
  // anew carries.
  __device__ __forceinline__ void add(unsigned bucket, Mass mass) {
    const unsigned copy = threadIdx.x / kWarpLanes % kCopies;
    const auto low_part = static_cast<unsigned>(mass);
    const unsigned before = atomicAdd(&low[copy][bucket], low_part);
    const unsigned carry = before + low_part < before ? 1 : 0;
    const unsigned high_part = static_cast<unsigned>(mass >> 32) + carry;
    if (high_part != 0) atomicAdd(&high[copy][bucket], high_part);
  }
  __device__ __forceinline__ void finish() {
    __syncthreads();
    for (unsigned bucket = threadIdx.x; bucket < kBuckets; bucket += blockDim.x) {
      Mass sum = 0;
#pragma unroll
      for (unsigned copy = 0; copy < kCopies; ++copy)
        sum += static_cast<Mass>(high[copy][bucket]) << 32 | low[copy][bucket];
      sums[bucket] = sum;
    }
    __syncthreads();
  }
};

struct Bucket {
  int number;  // -1: all of them together don't reach it
  Mass above;  // sum of those with higher numbers
};

__device__ __forceinline__ Mass scan_lanes(Mass value) {  // inclusive
  const unsigned lane = threadIdx.x % kWarpLanes;
#pragma unroll
  for (unsigned distance = 1; distance < kWarpLanes; distance *= 2) {
    const Mass before = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

// From the highest bucket down, the one in which the sum reaches `wanted`. Every
// warp finds it for itself.
__device__ __forceinline__ Bucket find_bucket(const Mass (&sums)[kBuckets], Mass wanted) {
  constexpr unsigned kOfLane = kBuckets / kWarpLanes;
  const unsigned lane = threadIdx.x % kWarpLanes;
  const unsigned highest = kBuckets - 1 - lane * kOfLane;
  Mass sum = 0;
  for (unsigned i = 0; i < kOfLane; ++i) sum += sums[highest - i];
  const Mass reached = scan_lanes(sum);
  const unsigned lanes = __ballot_sync(kAllLanes, reached >= wanted);
  if (lanes == 0) return {-1, 0};
  Mass above = reached - sum;
  unsigned bucket = highest;
  while (bucket > highest - kOfLane + 1 && above + sums[bucket] < wanted) {
    above += sums[bucket--];
  }
  const int finder = __ffs(static_cast<int>(lanes)) - 1;
  return {__shfl_sync(kAllLanes, static_cast<int>(bucket), finder), __shfl_sync(kAllLanes, above, finder)};
}

// The weakest cut whose weights measure at least `wanted` (>= 1) together; if
// they all do not, none. Called by the whole block.
template <typename Measure>
__device__ __forceinline__ WeightCut find_cut(const RowWeights& weights, unsigned count, Mass wanted,
                                              Measure measure, Histogram& histogram) {
  unsigned known = 0;  // leading bits of the weight looked for
  unsigned known_from = 31;
  Mass above = 0;
  while (known_from > 0) {  // the exponent, then the mantissa in three parts
    const unsigned shift = known_from > 8 ? known_from - 8 : 0;
    histogram.clear();
    const auto weight_of = [&](unsigned i) { return weights[i]; };
    walk_row(count, weight_of, [&](unsigned, float weight) {
      const unsigned bits = __float_as_uint(weight);
      if (bits == 0 || bits >> known_from != known) return;
      const unsigned digit = (bits >> shift) - (known << (known_from - shift));
      if (const Mass mass = measure(weight); mass != 0) histogram.add(digit, mass);
    });
    histogram.finish();
    const Bucket bucket = find_bucket(histogram.sums, wanted - above);
    if (bucket.number < 0) return {};
    known = (known << (known_from - shift)) + static_cast<unsigned>(bucket.number);
    known_from = shift;
    above += bucket.above;
    __syncthreads();  // the histogram is read
  }
  const Mass of_one = measure(__uint_as_float(known));
  return {known, static_cast<unsigned>((wanted - above + of_one - 1) / of_one)};
}

}  // namespace troupe::cuda
