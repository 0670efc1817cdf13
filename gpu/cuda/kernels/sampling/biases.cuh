// SPDX-License-Identifier: Apache-2.0
// Biases that a client gave tokens, on a row of logits, in place. The old value of
// each logit that changes is kept for log-probabilities.
#pragma once

#include <cfloat>

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/sampling/sample.hpp"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {

// All threads of the block; the same bits as the host's.
__device__ __forceinline__ void add_biases(const SampleArguments& a, const SampleRow& row, float* logits) {
  for (unsigned i = threadIdx.x; i < row.num_biased; i += blockDim.x) {
    const TokenBias token = a.biased[row.first_biased + i];
    if (static_cast<std::uint32_t>(token.id) >= a.vocabulary) continue;
    const float given = logits[token.id];
    a.biased_logits[row.first_biased + i] = given;
    if (given != kLowest) logits[token.id] = fminf(fmaxf(given + token.bias, -FLT_MAX), FLT_MAX);
  }
  __syncthreads();
}

// The token's logit before its bias, `now` if it has none; all lanes of one warp, behind add_biases().
__device__ __forceinline__ float unbiased_logit(const SampleArguments& a, const SampleRow& row, float now,
                                                std::int32_t token) {
  float given = 0.0F;
  bool is_found = false;
  for (unsigned i = threadIdx.x % kWarpLanes; i < row.num_biased; i += kWarpLanes) {
    if (a.biased[row.first_biased + i].id != token) continue;
    given = a.biased_logits[row.first_biased + i];
    is_found = true;
  }
  const unsigned finders = __ballot_sync(kAllLanes, is_found ? 1 : 0);
  if (finders == 0) return now;
  return __shfl_sync(kAllLanes, given, __ffs(static_cast<int>(finders)) - 1);
}

}  // namespace troupe::cuda
