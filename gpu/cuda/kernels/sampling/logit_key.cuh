// SPDX-License-Identifier: Apache-2.0
// A logit and its id in one whole number, so that the best of many is found by
// taking maxima, in whatever order.
#pragma once

#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

using LogitKey = unsigned long long;

// A larger logit, or the same one with a lower id, has a larger key.
__device__ __forceinline__ LogitKey key_of(float logit, unsigned id) {
  const unsigned bits = __float_as_uint(logit + 0.0F);  // -0 is 0
  const unsigned ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<LogitKey>(ordered) << 32 | ~id;
}
__device__ __forceinline__ unsigned id_of(LogitKey key) { return ~static_cast<unsigned>(key); }

}  // namespace troupe::cuda
