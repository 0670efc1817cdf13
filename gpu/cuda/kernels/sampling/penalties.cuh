// SPDX-License-Identifier: Apache-2.0
// Penalties, and biases that a client gave tokens, on a row of logits, in place. The
// old value of each logit that changes is kept for log-probabilities.
#pragma once

#include <cfloat>

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/sampling/sample.hpp"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {

struct PenaltyScratch {
  std::int32_t pending[kRecentTokens];
  bool is_listed[kRecentTokens];  // it is among the row's penalized tokens, too
  float given[kRecentTokens];     // the logits of those that are not
};

// In single steps, each rounded once: the same bits as the host's.
__device__ __forceinline__ float penalized_logit(const SamplingParameters& parameters, float logit,
                                                 unsigned num_generated) {
  if (logit == kLowest) return logit;
  float left = logit > 0.0F ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
  if (num_generated > 0) {
    left = fmaf(-parameters.frequency_penalty, static_cast<float>(num_generated), left);
    left -= parameters.presence_penalty;
  }
  return fminf(fmaxf(left, -FLT_MAX), FLT_MAX);
}

__device__ __forceinline__ void load_pending(const SampleArguments& a, const SampleRow& row,
                                             PenaltyScratch& scratch) {
  if (threadIdx.x < kRecentTokens) {
    const std::int32_t* recent = a.recent_tokens + std::size_t{row.slot} * kRecentTokens;
    const bool is_pending = threadIdx.x < row.num_pending;
    scratch.pending[threadIdx.x] = is_pending ? recent[(row.position - 1 - threadIdx.x) % kRecentTokens] : -1;
    scratch.is_listed[threadIdx.x] = false;
  }
  __syncthreads();
}

__device__ __forceinline__ void penalize_listed(const SampleArguments& a, const SampleRow& row, float* logits,
                                                PenaltyScratch& scratch) {
  for (unsigned i = threadIdx.x; i < row.num_penalized; i += blockDim.x) {
    const PenalizedToken token = a.penalized[row.first_penalized + i];
    unsigned num_generated = token.num_generated;
    for (unsigned j = 0; j < row.num_pending; ++j) {
      if (scratch.pending[j] != token.id) continue;
      ++num_generated;
      scratch.is_listed[j] = true;
    }
    if (static_cast<std::uint32_t>(token.id) >= a.vocabulary) continue;
    const float given = logits[token.id];
    a.penalized_logits[row.first_penalized + i] = given;
    logits[token.id] = penalized_logit(row.parameters, given, num_generated);
  }
  __syncthreads();
}

// Penalizes tokens that were generated for the first time in batches still in flight.
__device__ __forceinline__ void penalize_pending(const SampleArguments& a, const SampleRow& row,
                                                 float* logits, PenaltyScratch& scratch) {
  if (threadIdx.x < row.num_pending && !scratch.is_listed[threadIdx.x]) {
    const std::int32_t id = scratch.pending[threadIdx.x];
    unsigned num_before = 0, num_generated = 0;
    for (unsigned j = 0; j < row.num_pending; ++j) {
      num_generated += scratch.pending[j] == id ? 1 : 0;
      num_before += scratch.pending[j] == id && j < threadIdx.x ? 1 : 0;
    }
    if (num_before == 0 && static_cast<std::uint32_t>(id) < a.vocabulary) {
      scratch.given[threadIdx.x] = logits[id];
      logits[id] = penalized_logit(row.parameters, logits[id], num_generated);
    }
  }
  __syncthreads();
}

// All threads of the block.
__device__ __forceinline__ void penalize(const SampleArguments& a, const SampleRow& row, float* logits,
                                         PenaltyScratch& scratch) {
  load_pending(a, row, scratch);
  penalize_listed(a, row, logits, scratch);
  penalize_pending(a, row, logits, scratch);
}

// The logit before penalties; all lanes of one warp, behind penalize().
__device__ __forceinline__ float given_logit(const SampleArguments& a, const SampleRow& row,
                                             const float* logits, const PenaltyScratch& scratch,
                                             std::int32_t token) {
  const float now = logits[token];
  const unsigned lane = threadIdx.x % kWarpLanes;
  float given = 0.0F;
  bool is_found = false;
  for (unsigned i = lane; i < row.num_penalized; i += kWarpLanes) {
    if (a.penalized[row.first_penalized + i].id != token) continue;
    given = a.penalized_logits[row.first_penalized + i];
    is_found = true;
  }
  // If several pending tokens are the same, the first has the logit.
  if (lane < row.num_pending && scratch.pending[lane] == token && !scratch.is_listed[lane]) {
    bool is_first = true;
    for (unsigned j = 0; j < lane; ++j) is_first = is_first && scratch.pending[j] != token;
    if (is_first) given = scratch.given[lane];
    is_found = is_first;
  }
  const unsigned finders = __ballot_sync(kAllLanes, is_found ? 1 : 0);
  if (finders == 0) return now;
  return __shfl_sync(kAllLanes, given, __ffs(static_cast<int>(finders)) - 1);
}

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
