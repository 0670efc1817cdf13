// SPDX-License-Identifier: Apache-2.0
// Reads one head's keys and values of one page as a warp wants them: keys of
// four tokens at a time, values eight elements at a time.
#pragma once

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Elements d, d + 1 of four tokens' keys.
struct KeyQuad {
  float first[4];
  float second[4];
};

// `pair` is d / 2, `token` a multiple of 4. 32 tokens of a pair are 128 bytes in
// bf16 and f16; in f32 each element has its own 128 bytes.
template <typename Short>
__device__ __forceinline__ KeyQuad load_keys(const Short* block, unsigned pair, unsigned token) {
  const auto words = load_vector<uint4>(block + (pair * kKvPageTokens + token) * 2);
  const float2 first = unpack<Short>(words.x), second = unpack<Short>(words.y),
               third = unpack<Short>(words.z), fourth = unpack<Short>(words.w);
  return {{first.x, second.x, third.x, fourth.x}, {first.y, second.y, third.y, fourth.y}};
}
__device__ __forceinline__ KeyQuad load_keys(const float* block, unsigned pair, unsigned token) {
  const auto first = load_vector<float4>(block + 2 * pair * kKvPageTokens + token);
  const auto second = load_vector<float4>(block + (2 * pair + 1) * kKvPageTokens + token);
  return {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
}

}  // namespace troupe::cuda
