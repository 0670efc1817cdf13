// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of a row of logits: the softmax's normalizer, and the most
// likely tokens, one after the other. All threads of the block call.
#pragma once

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/sampling/logit_key.cuh"
#include "gpu/cuda/kernels/sampling/row_logprobs.hpp"
#include "gpu/cuda/kernels/sampling/row_walk.cuh"
#include "gpu/cuda/kernels/sampling/weight_cut.cuh"

namespace troupe::cuda {

// Turns a logit of the row into its log-probability.
struct Normalizer {
  float highest = 0.0F;
  float log_sum = 0.0F;  // of exp(logit - highest)
  __device__ __forceinline__ float logprob(float logit) const { return (logit - highest) - log_sum; }
};

using BlockSum = ReductionScratch<Mass, 1>;

// In whole numbers, as all sums of weights here. `highest` is the row's.
__device__ __forceinline__ Normalizer normalizer_of(const float* logits, unsigned count, float highest,
                                                    BlockSum& scratch) {
  Mass sums[1] = {0};
  const auto logit_of = [&](unsigned i) { return logits[i]; };
  walk_row(count, logit_of, [&](unsigned, float logit) { sums[0] += mass_of(expf(logit - highest)); });
  reduce_block(sums, Mass{0}, Add{}, scratch);
  __syncthreads();
  return {highest, static_cast<float>(log(static_cast<double>(sums[0]) * 0x1p-44))};
}

// The best of a thread's logits whose key is below `limit`; 0: none is left.
__device__ __forceinline__ LogitKey best_below(const float* logits, unsigned count, LogitKey limit) {
  LogitKey best = 0;
  const auto logit_of = [&](unsigned i) { return logits[i]; };
  walk_row(count, logit_of, [&](unsigned i, float logit) {
    const LogitKey key = key_of(logit, i);
    if (key < limit && key > best) best = key;
  });
  return best;
}

// Every thread has its own best at hand, and only the one whose was taken looks
// for its next: a token costs a reduction and one thread's share of the row.
__device__ __forceinline__ void find_top(const float* logits, unsigned count, unsigned num_wanted,
                                         const Normalizer& normalizer, RowLogprobs& out, BlockSum& scratch) {
  const unsigned num_top = min(min(num_wanted, static_cast<unsigned>(kMaxTopLogprobs)), count);
  LogitKey mine = num_top == 0 ? 0 : best_below(logits, count, ~LogitKey{0});
  for (unsigned rank = 0; rank < num_top; ++rank) {
    LogitKey keys[1] = {mine};
    reduce_block(keys, LogitKey{0}, Larger{}, scratch);
    const unsigned id = id_of(keys[0]);
    if (threadIdx.x == id % blockDim.x) {
      out.top[rank] = {static_cast<std::int32_t>(id), normalizer.logprob(logits[id])};
      mine = best_below(logits, count, keys[0]);
    }
    __syncthreads();  // the scratch is free again
  }
  if (threadIdx.x == 0) out.num_top = num_top;
}

}  // namespace troupe::cuda
