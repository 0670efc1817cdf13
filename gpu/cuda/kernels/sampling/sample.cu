// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/sampling/sample.hpp"

#include <cfloat>

#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/sampling/logit_key.cuh"
#include "gpu/cuda/kernels/sampling/logprobs.cuh"
#include "gpu/cuda/kernels/sampling/penalties.cuh"
#include "gpu/cuda/kernels/sampling/philox.cuh"
#include "gpu/cuda/kernels/sampling/row_walk.cuh"
#include "gpu/cuda/kernels/sampling/weight_cut.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kSampleThreads = 1024;
constexpr unsigned kFewThreads = 128;  // for vocabularies up to kSmallVocabulary
constexpr std::uint32_t kSmallVocabulary = 4096;
constexpr std::int32_t kInvalidLogits = -1;

struct SampleScratch {
  Histogram histogram;
  ReductionScratch<Mass, 1> reduction;
  PenaltyScratch penalties;
  Mass mass[kWarpLanes];      // by warp
  unsigned ties[kWarpLanes];  // by warp
};

// The best key of the row; false if there is a NaN or +Inf.
__device__ __forceinline__ bool find_best(const float* logits, unsigned count, SampleScratch& scratch,
                                          LogitKey& best) {
  LogitKey keys[1] = {0};
  bool is_broken = false;
  const auto logit_of = [&](unsigned i) { return logits[i]; };
  walk_row(count, logit_of, [&](unsigned i, float logit) {
    is_broken = is_broken || !(logit < -kLowest);
    keys[0] = Larger{}(keys[0], key_of(logit, i));
  });
  reduce_block(keys, LogitKey{0}, Larger{}, scratch.reduction);
  best = keys[0];
  return __syncthreads_or(is_broken ? 1 : 0) == 0;  // and the scratch is free again
}

__device__ __forceinline__ void suppress(const SampleArguments& a, const SampleRow& row, float* logits) {
  for (unsigned i = threadIdx.x; i < row.num_suppressed; i += blockDim.x) {
    const auto id = static_cast<std::uint32_t>(a.suppressed[row.first_suppressed + i]);
    if (id < a.vocabulary) logits[id] = kLowest;
  }
  __syncthreads();
}

__device__ __forceinline__ void keep_allowed(const SampleArguments& a, const SampleRow& row, float* logits) {
  const std::uint32_t* mask = a.masks + row.first_mask_word;
  for (unsigned id = threadIdx.x; id < a.vocabulary; id += blockDim.x)
    if ((mask[id / 32] >> (id % 32) & 1U) == 0) logits[id] = kLowest;
  __syncthreads();
}

__device__ __forceinline__ Mass sum_of_block(Mass part, SampleScratch& scratch) {
  Mass sums[1] = {part};
  reduce_block(sums, Mass{0}, Add{}, scratch.reduction);
  __syncthreads();
  return sums[0];
}

__device__ __forceinline__ WeightCut cut_of(const SamplingParameters& parameters, const RowWeights& weights,
                                            unsigned count, SampleScratch& scratch) {
  WeightCut cut;
  if (parameters.top_k > 0) {
    cut = find_cut(
        weights, count, static_cast<Mass>(parameters.top_k), [](float) { return Mass{1}; },
        scratch.histogram);
  }
  if (parameters.top_p < 1.0F) {
    Mass part = 0;
    const auto weight_of = [&](unsigned i) { return weights[i]; };
    walk_row(count, weight_of, [&](unsigned, float weight) {
      if (__float_as_uint(weight) > cut.bits) part += mass_of(weight);
    });
    const Mass kept = sum_of_block(part, scratch) + cut.ties * mass_of(__uint_as_float(cut.bits));
    const double wanted = ceil(fmaxf(0.0F, parameters.top_p) * static_cast<double>(kept));
    const Mass reachable = static_cast<Mass>(fmax(1.0, wanted));
    cut = stricter(cut, find_cut(
                            weights, count, reachable < kept ? reachable : kept,
                            [](float weight) { return mass_of(weight); }, scratch.histogram));
  }
  if (parameters.min_p > 0.0F) {  // the highest weight is 1
    const float lowest = fminf(1.0F, parameters.min_p);
    cut = stricter(cut, {__float_as_uint(lowest) - 1, 0});
  }
  return cut;
}

// The part of a row that one warp walks through in order of ids.
struct Segment {
  unsigned begin;
  unsigned end;
};
__device__ __forceinline__ Segment segment_of(unsigned warp, unsigned count) {
  const unsigned length = divide_up(divide_up(count, blockDim.x / kWarpLanes), kWarpLanes) * kWarpLanes;
  return {min(warp * length, count), min((warp + 1) * length, count)};
}

// What the cut leaves in the warp's segment, and how many ties are in it.
__device__ __forceinline__ void measure_segment(const RowWeights& weights, const Segment& segment,
                                                const WeightCut& cut, SampleScratch& scratch) {
  Mass mass = 0;
  unsigned ties = 0;
  for (unsigned i = segment.begin + threadIdx.x % kWarpLanes; i < segment.end; i += kWarpLanes) {
    const float weight = weights[i];
    const unsigned bits = __float_as_uint(weight);
    if (bits > cut.bits) mass += mass_of(weight);
    ties += bits == cut.bits ? 1 : 0;
  }
  Mass sums[2] = {mass, ties};
  reduce_warp(sums, Add{});
  if (threadIdx.x % kWarpLanes == 0) {
    scratch.mass[threadIdx.x / kWarpLanes] = sums[0];
    scratch.ties[threadIdx.x / kWarpLanes] = static_cast<unsigned>(sums[1]);
  }
}

struct Target {
  unsigned warp;  // whose segment it falls into
  Mass left;      // of the draw, at the segment's begin
  unsigned ties;  // that the segment may keep
};

// Every thread finds the same.
__device__ __forceinline__ Target find_target(const WeightCut& cut, double uniform,
                                              const SampleScratch& scratch) {
  const unsigned num_warps = blockDim.x / kWarpLanes;
  const Mass mass_of_tie = mass_of(__uint_as_float(cut.bits));
  const auto mass_with = [&](unsigned warp, unsigned ties_left) {
    return scratch.mass[warp] + mass_of_tie * min(ties_left, scratch.ties[warp]);
  };
  Mass total = 0;
  unsigned ties = cut.ties;
  for (unsigned warp = 0; warp < num_warps; ++warp) {
    total += mass_with(warp, ties);
    ties -= min(ties, scratch.ties[warp]);
  }
  const Mass drawn = static_cast<Mass>(uniform * static_cast<double>(total));
  Target target{0, drawn < total ? drawn : total - 1, cut.ties};
  while (target.left >= mass_with(target.warp, target.ties)) {
    target.left -= mass_with(target.warp, target.ties);
    target.ties -= min(target.ties, scratch.ties[target.warp]);
    ++target.warp;
  }
  return target;
}

// The first id of the segment at which the kept mass exceeds target.left; all
// lanes of one warp.
__device__ __forceinline__ std::int32_t walk_segment(const RowWeights& weights, const Segment& segment,
                                                     const WeightCut& cut, Target target) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  const unsigned lower_lanes = (1U << lane) - 1;
  for (unsigned first = segment.begin; first < segment.end; first += kWarpLanes) {
    const float weight = first + lane < segment.end ? weights[first + lane] : 0.0F;
    const bool is_tie = first + lane < segment.end && __float_as_uint(weight) == cut.bits;
    const unsigned ties = __ballot_sync(kAllLanes, is_tie ? 1 : 0);
    const bool is_kept = __float_as_uint(weight) > cut.bits ||
                         (is_tie && __popc(ties & lower_lanes) < static_cast<int>(target.ties));
    const Mass reached = scan_lanes(is_kept ? mass_of(weight) : 0);
    const unsigned lanes = __ballot_sync(kAllLanes, reached > target.left ? 1 : 0);
    if (lanes != 0) return static_cast<std::int32_t>(first) + __ffs(static_cast<int>(lanes)) - 1;
    target.left -= __shfl_sync(kAllLanes, reached, kWarpLanes - 1);
    target.ties -= min(target.ties, static_cast<unsigned>(__popc(ties)));
  }
  return kInvalidLogits;  // not reached: the segment holds more than target.left
}

// Biases, penalties and what must not be drawn; false if nothing has changed.
__device__ __forceinline__ bool change_logits(const SampleArguments& a, const SampleRow& row, float* logits,
                                              SampleScratch& scratch) {
  const bool has_penalties = row.parameters.has_penalties() && (row.num_penalized > 0 || row.num_pending > 0);
  if (row.num_biased > 0) add_biases(a, row, logits);
  if (has_penalties) penalize(a, row, logits, scratch.penalties);
  if (row.num_suppressed > 0) suppress(a, row, logits);
  if (row.first_mask_word >= 0) keep_allowed(a, row, logits);
  return has_penalties || row.num_suppressed > 0 || row.num_biased > 0 || row.first_mask_word >= 0;
}

// All lanes of one warp; the row's logits are still there if it asks for
// log-probabilities.
__device__ __forceinline__ void store_token(const SampleArguments& a, const SampleRow& row,
                                            std::int32_t token, const float* logits,
                                            const Normalizer& normalizer, const SampleScratch& scratch) {
  const bool is_first_lane = threadIdx.x % kWarpLanes == 0;
  if (is_first_lane) {
    const bool is_drawn = row.scored_token < 0;
    a.token_ids[blockIdx.x] = token;
    if (is_drawn && a.tokens_of_slots != nullptr) a.tokens_of_slots[row.slot] = token;
    if (is_drawn && a.recent_tokens != nullptr) {
      a.recent_tokens[std::size_t{row.slot} * kRecentTokens + row.position % kRecentTokens] = token;
    }
  }
  if (!row.parameters.wants_logprobs() || token < 0) return;
  const float now =
      row.parameters.has_penalties() ? given_logit(a, row, logits, scratch.penalties, token) : logits[token];
  const float logit = row.num_biased > 0 ? unbiased_logit(a, row, now, token) : now;
  if (is_first_lane) a.logprobs[row.logprobs_row].logprob = normalizer.logprob(logit);
}

__global__ void __launch_bounds__(kSampleThreads, 1) sample_kernel(const SampleArguments a) {
  __shared__ SampleScratch scratch;
  const SampleRow& row = a.rows[blockIdx.x];
  float* logits = a.logits + blockIdx.x * a.logits_stride;
  const unsigned count = a.vocabulary;
  const unsigned warp = threadIdx.x / kWarpLanes;
  const bool wants_logprobs = row.parameters.wants_logprobs();  // the batch's input, not a kernel's result
  wait_for_previous_kernel();

  LogitKey best = 0;
  Normalizer normalizer;
  bool is_valid = find_best(logits, count, scratch, best);
  if (is_valid && wants_logprobs) {
    normalizer = normalizer_of(logits, count, logits[id_of(best)], scratch.reduction);
    find_top(logits, count, static_cast<unsigned>(row.parameters.top_logprobs), normalizer,
             a.logprobs[row.logprobs_row], scratch.reduction);
  }
  if (is_valid && change_logits(a, row, logits, scratch)) {
    find_best(logits, count, scratch, best);
  }
  is_valid = is_valid && best >= key_of(-FLT_MAX, 0xFFFFFFFFU);  // more than -Inf
  const bool is_scored = row.scored_token >= 0;
  if (!is_valid || is_scored || !(row.parameters.temperature > 0.0F)) {
    const auto found = is_scored ? row.scored_token : static_cast<std::int32_t>(id_of(best));
    const auto token = is_valid ? found : kInvalidLogits;
    if (warp == 0) store_token(a, row, token, logits, normalizer, scratch);
    return;
  }

  // A temperature whose inverse is no float draws what the smallest such would.
  const RowWeights weights{.values = logits,
                           .highest = logits[id_of(best)],
                           .inverse_temperature = fminf(1.0F / row.parameters.temperature, FLT_MAX),
                           .are_stored = !wants_logprobs};
  if (weights.are_stored) {
    __syncthreads();  // everybody has read the highest one
    const auto logit_of = [&](unsigned i) { return logits[i]; };
    walk_row(count, logit_of, [&](unsigned i, float logit) {
      logits[i] = expf((logit - weights.highest) * weights.inverse_temperature);
    });
    __syncthreads();
  }
  const WeightCut cut = cut_of(row.parameters, weights, count, scratch);
  measure_segment(weights, segment_of(warp, count), cut, scratch);
  __syncthreads();
  const Target target = find_target(cut, uniform_draw(row.parameters.seed, row.position), scratch);
  if (warp != target.warp) return;
  const std::int32_t token = walk_segment(weights, segment_of(warp, count), cut, target);
  store_token(a, row, token, logits, normalizer, scratch);
}

}  // namespace

void launch_sample(const SampleArguments& arguments, StreamHandle stream) {
  if (arguments.num_rows == 0) return;
  const bool is_small = arguments.vocabulary <= kSmallVocabulary;
  launch(sample_kernel,
         {.grid = arguments.num_rows,
          .block = is_small ? kFewThreads : kSampleThreads,
          .overlaps_previous = arguments.overlaps_previous},
         stream, arguments);
}

}  // namespace troupe::cuda
