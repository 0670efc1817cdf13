// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/cells/state_attention.hpp"

#include "gpu/cuda/kernels/cells/state_rows.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/shared_memory.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kThreads = kWarps * kWarpLanes;
constexpr unsigned kKeys = kWarpLanes;  // of a step: a lane weighs one
constexpr unsigned kKeysTogether = 4;   // whose loads are under way at once
// A multiprocessor has so many, at least. For more of them the compiler would save registers, and have a load
// at a time.
[[maybe_unused]] constexpr unsigned kBlocks = 4;
constexpr unsigned kColumnsOfWarp = kWarpLanes * kEight;

// A warp's copy of what it knows of a step's keys.
struct WarpKeys {
  std::uint32_t rows[kKeys];  // of the pool
  float weights[kKeys];
};

__host__ __device__ constexpr unsigned padded(std::uint32_t width) {
  return divide_up(width, kEight) * kEight;
}

// The part of a row of the pool that begins at `offset`.
__device__ __forceinline__ const float* part_of(const StateRows& state, std::uint32_t row,
                                                std::size_t offset) {
  return state.rows + row * state.width + offset;
}

// By one exponential and without a branch. Off by 1e-7, which a score, a sum of such, is off anyway.
__device__ __forceinline__ float short_tanh(float v) {
  return 1.0F - __fdividef(2.0F, 1.0F + __expf(2.0F * v));
}

// Eight columns' part of a score.
template <bool kIsAdditive>
__device__ __forceinline__ float part_of_score(const Eight& query, const Eight& key, const Eight& weight) {
  float sum = 0.0F;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i)
    sum += kIsAdditive ? weight.v[i] * short_tanh(query.v[i] + key.v[i]) : query.v[i] * key.v[i];
  return sum;
}

// Each warp scores every kWarps-th group of keys.
template <bool kIsAdditive, bool kIsWhole>
__device__ __forceinline__ void score_keys(const StateAttentionArguments& a, const WarpKeys& keys,
                                           unsigned num_keys, const float* query, float* scores) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  for (unsigned first = threadIdx.x / kWarpLanes * kKeysTogether; first < num_keys;
       first += kWarps * kKeysTogether) {
    const float* rows[kKeysTogether];
#pragma unroll
    for (unsigned k = 0; k < kKeysTogether; ++k)
      rows[k] = part_of(a.state, keys.rows[min(first + k, num_keys - 1)], a.key_offset);
    float sums[kKeysTogether] = {};
    for (unsigned column = lane * kEight; column < a.width; column += kColumnsOfWarp) {
      Eight parts[kKeysTogether];
#pragma unroll
      for (unsigned k = 0; k < kKeysTogether; ++k)
        parts[k] = load_columns<kIsWhole>(rows[k], column, a.width);
      Eight weight{};
      if constexpr (kIsAdditive) weight = load_columns<kIsWhole>(a.score_weight, column, a.width);
      const Eight of_query = load_aligned(query + column);
#pragma unroll
      for (unsigned k = 0; k < kKeysTogether; ++k)
        sums[k] += part_of_score<kIsAdditive>(of_query, parts[k], weight);
    }
    reduce_warp(sums, Add{});
#pragma unroll
    for (unsigned k = 0; k < kKeysTogether; ++k)
      if (lane == k && first + k < num_keys) scores[first + k] = sums[k];
  }
}

// Scores become the lanes' weights. Every warp does so for itself, with the same bits. Returns the
// factor of what was summed before.
__device__ __forceinline__ float weigh_keys(float score, WarpKeys& keys, SoftmaxState& state) {
  float highest[1] = {score};
  reduce_warp(highest, Larger{});
  highest[0] = fmaxf(highest[0], state.highest);
  const float weight = rescale(score, highest[0]);
  float total[1] = {weight};
  reduce_warp(total, Add{});
  const float correction = rescale(state.highest, highest[0]);
  state = {highest[0], state.sum * correction + total[0]};
  keys.weights[threadIdx.x % kWarpLanes] = weight;
  __syncwarp();  // every lane reads the weights of all
  return correction;
}

// context = correction * context + the keys' values, in order; each column by one thread.
template <bool kIsWhole>
__device__ __forceinline__ void add_values(const StateAttentionArguments& a, const WarpKeys& keys,
                                           unsigned num_keys, float correction, float* context) {
  for (unsigned column = threadIdx.x * kEight; column < a.width; column += kThreads * kEight) {
    Eight sum = load_aligned(context + column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) sum.v[i] *= correction;
    for (unsigned first = 0; first < num_keys; first += kKeysTogether) {
      Eight values[kKeysTogether];
#pragma unroll
      for (unsigned k = 0; k < kKeysTogether; ++k)
        values[k] = load_columns<kIsWhole>(
            part_of(a.state, keys.rows[min(first + k, num_keys - 1)], a.value_offset), column, a.width);
#pragma unroll
      for (unsigned k = 0; k < kKeysTogether; ++k) {
        const float weight = first + k < num_keys ? keys.weights[first + k] : 0.0F;
#pragma unroll
        for (unsigned i = 0; i < kEight; ++i) sum.v[i] += weight * values[k].v[i];
      }
    }
    store_aligned(context + column, sum);
  }
}

// Sums begin with the query and zeros; the part of the result beside the context is a copy.
__device__ __forceinline__ void begin_node(const StateAttentionArguments& a, float* query, float* context,
                                           float* beside) {
  for (unsigned i = threadIdx.x; i < padded(a.width); i += kThreads) {
    query[i] = i < a.width ? a.query[std::size_t{blockIdx.x} * a.width + i] : 0.0F;
    context[i] = 0.0F;
  }
  for (unsigned i = threadIdx.x; i < a.beside_width; i += kThreads)
    beside[i] = a.beside[std::size_t{blockIdx.x} * a.beside_width + i];
  __syncthreads();
}

// A block has a node. Dynamic shared memory: the query and the context, [padded(width)] each.
template <bool kIsAdditive, bool kIsWhole>
__global__ void __launch_bounds__(kThreads, kBlocks) state_attention_kernel(const StateAttentionArguments a) {
  __shared__ float scores[2][kKeys];  // by turns: a warp may be a step ahead
  __shared__ WarpKeys keys_of_warps[kWarps];
  auto* query = dynamic_shared<float>();
  float* context = query + padded(a.width);
  const NodeRows node = a.state.nodes[blockIdx.x];  // the batch's description, which no kernel writes
  const unsigned lane = threadIdx.x % kWarpLanes;
  wait_for_previous_kernel();
  let_next_kernel_start();
  float* both = a.both + std::size_t{blockIdx.x} * (a.width + a.beside_width);
  begin_node(a, query, context, both + (a.is_context_first ? a.width : 0));
  WarpKeys& keys = keys_of_warps[threadIdx.x / kWarpLanes];
  SoftmaxState state{kLowest, 0.0F};
  for (unsigned first = 1; first < node.num_inputs; first += kKeys) {
    const unsigned num_keys = min(kKeys, node.num_inputs - first);
    if (lane < num_keys) keys.rows[lane] = a.state.inputs[node.first_input + first + lane];
    __syncwarp();
    float* of_step = scores[first / kKeys % 2];
    score_keys<kIsAdditive, kIsWhole>(a, keys, num_keys, query, of_step);
    __syncthreads();
    const float correction = weigh_keys(lane < num_keys ? of_step[lane] : kLowest, keys, state);
    add_values<kIsWhole>(a, keys, num_keys, correction, context);
    __syncwarp();  // keys are read before the next ones are written
  }
  const bool has_keys = node.num_inputs > 1;
  float* to = both + (a.is_context_first ? 0 : a.beside_width);
  for (unsigned column = threadIdx.x * kEight; column < a.width; column += kThreads * kEight) {
    Eight sum = load_aligned(context + column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) sum.v[i] = has_keys ? sum.v[i] / state.sum : 0.0F;
    store_eight(to, column, a.width, are_rows_aligned(to, 0), sum);
  }
}

template <bool kIsAdditive>
auto kernel_of(bool is_whole) {
  return is_whole ? state_attention_kernel<kIsAdditive, true> : state_attention_kernel<kIsAdditive, false>;
}

}  // namespace

void launch_state_attention(const StateAttentionArguments& arguments, StreamHandle stream) {
  if (arguments.state.num_nodes == 0) return;
  const bool is_whole =
      are_columns_whole(arguments.state, arguments.width, {arguments.key_offset, arguments.value_offset},
                        {arguments.score_weight});
  launch(arguments.score_weight != nullptr ? kernel_of<true>(is_whole) : kernel_of<false>(is_whole),
         {.grid = arguments.state.num_nodes,
          .block = kThreads,
          .dynamic_shared_bytes = 2 * std::size_t{padded(arguments.width)} * sizeof(float),
          .overlaps_previous = arguments.overlaps_previous},
         stream, arguments);
}

}  // namespace troupe::cuda
