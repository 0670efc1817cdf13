// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/self_attention.hpp"

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/shared_memory.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kThreads = kWarps * kWarpLanes;
constexpr unsigned kRowsOfWarp = kSelfAttentionRows / kWarps;
constexpr unsigned kKeys = kWarpLanes;  // of a step: a lane scores one
constexpr unsigned kMostElements = kMaxHeadDim / kWarpLanes;

// Shared memory of a block.
struct BlockMemory {
  float* queries;  // [kSelfAttentionRows][head_dim], scaled
  float* keys;     // [kKeys][head_dim + 1], so that lanes read other banks
  float* values;   // [kKeys][head_dim]
  float* weights;  // [kSelfAttentionRows][kKeys]

  static __host__ __device__ std::size_t size_bytes(unsigned head_dim) {
    return sizeof(float) *
           (kSelfAttentionRows * (head_dim + kKeys) + kKeys * (2 * std::size_t{head_dim} + 1));
  }
  static __device__ BlockMemory of_block(unsigned head_dim) {
    auto* queries = dynamic_shared<float>();
    float* keys = queries + kSelfAttentionRows * head_dim;
    float* values = keys + kKeys * (head_dim + 1);
    return {queries, keys, values, values + kKeys * head_dim};
  }
};

// What a warp's rows know of the keys seen so far: a lane has every 32nd element of sums.
struct RowStates {
  float highest[kRowsOfWarp];
  float total[kRowsOfWarp];
  float sums[kRowsOfWarp][kMostElements];
};

// Part 0 is the query, 1 the key, 2 the value.
template <typename T>
__device__ __forceinline__ float element_of(const SelfAttentionArguments& a, std::size_t token, unsigned part,
                                            unsigned d) {
  const std::size_t width = std::size_t{a.num_heads} * a.head_dim;
  return to_float(static_cast<const T*>(a.qkv)[(3 * token + part) * width + blockIdx.y * a.head_dim + d]);
}

template <typename T>
__device__ __forceinline__ void load_queries(const SelfAttentionArguments& a, const SelfAttentionTile& tile,
                                             float* queries) {
  for (unsigned i = threadIdx.x; i < kSelfAttentionRows * a.head_dim; i += kThreads) {
    const unsigned row = tile.first_row + i / a.head_dim;
    queries[i] =
        row < tile.num_tokens ? element_of<T>(a, tile.first_token + row, 0, i % a.head_dim) * a.scale : 0.0F;
  }
}

// Zeros behind the slice's last key.
template <typename T>
__device__ __forceinline__ void load_keys_and_values(const SelfAttentionArguments& a,
                                                     const SelfAttentionTile& tile, unsigned first_key,
                                                     const BlockMemory& memory) {
  for (unsigned i = threadIdx.x; i < kKeys * a.head_dim; i += kThreads) {
    const unsigned key = i / a.head_dim, d = i % a.head_dim;
    const bool is_there = first_key + key < tile.num_keys;
    const std::size_t token = std::size_t{tile.first_token} + first_key + key;
    memory.keys[key * (a.head_dim + 1) + d] = is_there ? element_of<T>(a, token, 1, d) : 0.0F;
    memory.values[i] = is_there ? element_of<T>(a, token, 2, d) : 0.0F;
  }
}

// Of the lane's key, for each of the warp's rows.
__device__ __forceinline__ void score_key(unsigned head_dim, const float* queries, const float* key,
                                          float (&scores)[kRowsOfWarp]) {
#pragma unroll
  for (unsigned r = 0; r < kRowsOfWarp; ++r) scores[r] = 0.0F;
  for (unsigned d = 0; d < head_dim; ++d) {
#pragma unroll
    for (unsigned r = 0; r < kRowsOfWarp; ++r) scores[r] += queries[r * head_dim + d] * key[d];
  }
}

// Scores become weights; what a row had before is rescaled to its new highest score.
__device__ __forceinline__ void weigh_keys(const float (&scores)[kRowsOfWarp], float* weights, unsigned lane,
                                           RowStates& states) {
#pragma unroll
  for (unsigned r = 0; r < kRowsOfWarp; ++r) {
    float highest = scores[r];
#pragma unroll
    for (int distance = 1; distance < static_cast<int>(kWarpLanes); distance *= 2)
      highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, distance));
    highest = fmaxf(highest, states.highest[r]);
    const float weight = rescale(scores[r], highest);
    float total = weight;
#pragma unroll
    for (int distance = 1; distance < static_cast<int>(kWarpLanes); distance *= 2)
      total += __shfl_xor_sync(kAllLanes, total, distance);
    const float correction = rescale(states.highest[r], highest);
    states.highest[r] = highest;
    states.total[r] = states.total[r] * correction + total;
#pragma unroll
    for (unsigned i = 0; i < kMostElements; ++i) states.sums[r][i] *= correction;
    weights[r * kKeys + lane] = weight;
  }
  __syncwarp();  // every lane reads the weights of all
}

__device__ __forceinline__ void add_values(unsigned head_dim, const float* weights, const float* values,
                                           unsigned lane, RowStates& states) {
  for (unsigned key = 0; key < kKeys; ++key) {
#pragma unroll
    for (unsigned i = 0; i < kMostElements; ++i) {
      const unsigned d = lane + i * kWarpLanes;
      if (d >= head_dim) break;
      const float value = values[key * head_dim + d];
#pragma unroll
      for (unsigned r = 0; r < kRowsOfWarp; ++r) states.sums[r][i] += weights[r * kKeys + key] * value;
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) self_attention_kernel(const SelfAttentionArguments a) {
  const SelfAttentionTile tile = a.tiles[blockIdx.x];
  const auto memory = BlockMemory::of_block(a.head_dim);
  const unsigned lane = threadIdx.x % kWarpLanes;
  const unsigned first_row = threadIdx.x / kWarpLanes * kRowsOfWarp;  // of the warp, in the tile
  float* weights = memory.weights + first_row * kKeys;
  load_queries<T>(a, tile, memory.queries);
  RowStates states{};
#pragma unroll
  for (unsigned r = 0; r < kRowsOfWarp; ++r) states.highest[r] = kLowest;
  for (unsigned first_key = 0; first_key < tile.num_keys; first_key += kKeys) {
    __syncthreads();  // everybody is done with the keys before
    load_keys_and_values<T>(a, tile, first_key, memory);
    __syncthreads();
    float scores[kRowsOfWarp];
    score_key(a.head_dim, memory.queries + first_row * a.head_dim, memory.keys + lane * (a.head_dim + 1),
              scores);
#pragma unroll
    for (unsigned r = 0; r < kRowsOfWarp; ++r)
      scores[r] = first_key + lane < tile.num_keys ? scores[r] : kLowest;
    weigh_keys(scores, weights, lane, states);
    add_values(a.head_dim, weights, memory.values, lane, states);
  }
  const std::size_t width = std::size_t{a.num_heads} * a.head_dim;
#pragma unroll
  for (unsigned r = 0; r < kRowsOfWarp; ++r) {
    const unsigned row = tile.first_row + first_row + r;
    if (row >= tile.num_tokens) break;
    T* attended = static_cast<T*>(a.attended) + (std::size_t{tile.first_token} + row) * width +
                  std::size_t{blockIdx.y} * a.head_dim;
#pragma unroll
    for (unsigned i = 0; i < kMostElements; ++i) {
      const unsigned d = lane + i * kWarpLanes;
      if (d < a.head_dim) from_float(states.sums[r][i] / states.total[r], attended + d);
    }
  }
}

}  // namespace

void launch_self_attention(const SelfAttentionArguments& arguments, StreamHandle stream) {
  if (arguments.num_tiles == 0) return;
  with_element_type(arguments.type, [&](auto element) {
    launch(self_attention_kernel<decltype(element)>,
           {.grid = dim3(arguments.num_tiles, arguments.num_heads),
            .block = kThreads,
            .dynamic_shared_bytes = BlockMemory::size_bytes(arguments.head_dim)},
           stream, arguments);
  });
}

}  // namespace troupe::cuda
