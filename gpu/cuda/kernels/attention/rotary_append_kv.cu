// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/rotary_append_kv.hpp"

#include "gpu/cuda/kernels/computed_pages.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kRotaryThreads = 256;

// Two neighbouring elements.
__device__ __forceinline__ float2 load_pair(const float* from) { return load_vector<float2>(from); }
template <typename Short>
__device__ __forceinline__ float2 load_pair(const Short* from) {
  return unpack<Short>(load_vector<unsigned>(from));
}
__device__ __forceinline__ void store_pair(float* to, float2 pair) { store_vector(to, pair); }
template <typename Short>
__device__ __forceinline__ void store_pair(Short* to, float2 pair) {
  store_vector(to, pack<Short>(pair.x, pair.y));
}

// Elements d and d + 1 of a token's key: side by side in bf16 and f16, a row of
// 32 tokens apart in f32.
__device__ __forceinline__ void store_key_pair(const KvLayout& layout, float* keys, std::size_t token,
                                               std::size_t d, float2 pair) {
  keys[kv_key_element(layout, token, d)] = pair.x;
  keys[kv_key_element(layout, token, d + 1)] = pair.y;
}
template <typename Short>
__device__ __forceinline__ void store_key_pair(const KvLayout& layout, Short* keys, std::size_t token,
                                               std::size_t d, float2 pair) {
  store_pair(keys + kv_key_element(layout, token, d), pair);
}

// A thread's share of a token: elements d, d + 1 of one head and those that they are rotated with, four
// neighbours behind what is rotated, or eight elements of a value.
struct Share {
  unsigned num_rotations;  // shares of queries and keys
  unsigned num_values;
};
__host__ __device__ __forceinline__ Share shares_of(const RotaryAppendKvArguments& a) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  const auto num_kv_heads = static_cast<unsigned>(a.layout.num_kv_heads);
  return {(a.num_heads + num_kv_heads) * (head_dim / 4), num_kv_heads * (head_dim / kEight)};
}

template <typename T>
__device__ __forceinline__ void rotate(const RotaryAppendKvArguments& a, T* row, const TokenPlace& place,
                                       unsigned share) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  const unsigned half = a.rotary_dim / 2;
  const unsigned head = share / (head_dim / 4), of_head = share % (head_dim / 4);
  const bool is_rotated = of_head < a.rotary_dim / 4;
  if (!is_rotated && head < a.num_heads) return;
  const unsigned d = of_head * (is_rotated ? 2 : 4);
  const unsigned distance = is_rotated ? half : 2;
  T* from = row + head * head_dim + d;
  float2 low = load_pair(from);
  float2 high = load_pair(from + distance);
  if (is_rotated) {
    const float* angles = a.cosines_sines + std::size_t{place.position} * a.rotary_dim + d;
    const float2 cosine = load_pair(angles);
    const float2 sine = load_pair(angles + half);
    const float2 old_low = low;
    low = {low.x * cosine.x - high.x * sine.x, low.y * cosine.y - high.y * sine.y};
    high = {high.x * cosine.x + old_low.x * sine.x, high.y * cosine.y + old_low.y * sine.y};
  }
  if (head < a.num_heads) {
    store_pair(from, low);
    store_pair(from + distance, high);
    return;
  }
  auto* keys =
      reinterpret_cast<T*>(a.pool + computed_block_offset(a.layout, a.layer, place.page, head - a.num_heads));
  const std::size_t token = place.position % kKvPageTokens;
  store_key_pair(a.layout, keys, token, d, low);
  store_key_pair(a.layout, keys, token, d + distance, high);
}

template <typename T>
__device__ __forceinline__ void append_value(const RotaryAppendKvArguments& a, const T* row,
                                             const TokenPlace& place, unsigned share) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  const unsigned kv_head = share / (head_dim / kEight);
  const unsigned d = share % (head_dim / kEight) * kEight;
  const std::size_t first_value = (a.num_heads + a.layout.num_kv_heads) * a.layout.head_dim;
  const Eight value = load_aligned(row + first_value + kv_head * head_dim + d);
  auto* block = reinterpret_cast<T*>(a.pool + computed_block_offset(a.layout, a.layer, place.page, kv_head));
  store_aligned(block + kv_value_element(a.layout, place.position % kKvPageTokens, d), value);
}

// A block has part of the shares (y) of a token (x).
template <typename T>
__global__ void __launch_bounds__(kRotaryThreads) rotary_append_kv_kernel(const RotaryAppendKvArguments a) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const TokenPlace place = a.places[blockIdx.x];
  T* row = static_cast<T*>(a.qkv) + std::size_t{blockIdx.x} * a.qkv_stride;
  const Share shares = shares_of(a);
  const unsigned share = blockIdx.y * kRotaryThreads + threadIdx.x;
  if (share < shares.num_rotations) {
    rotate(a, row, place, share);
  } else if (share < shares.num_rotations + shares.num_values) {
    append_value(a, row, place, share - shares.num_rotations);
  }
}

}  // namespace

void launch_rotary_append_kv(const RotaryAppendKvArguments& arguments, StreamHandle stream) {
  const Share shares = shares_of(arguments);
  if (arguments.num_tokens == 0 || shares.num_rotations == 0) return;
  const unsigned parts = divide_up(shares.num_rotations + shares.num_values, kRotaryThreads);
  with_element_type(arguments.layout.type, [&](auto element) {
    launch(rotary_append_kv_kernel<decltype(element)>,
           {.grid = dim3(arguments.num_tokens, parts),
            .block = kRotaryThreads,
            .overlaps_previous = arguments.overlaps_previous},
           stream, arguments);
  });
}

}  // namespace troupe::cuda
