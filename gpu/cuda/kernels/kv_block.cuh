// SPDX-License-Identifier: Apache-2.0
// Reads one head's keys and values of one page as a warp wants them: keys of
// four tokens at a time, values eight elements at a time.
#pragma once

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/host/kernels/kv_pages.hpp"

namespace troupe::cuda {

// Elements d, d + 1 of four tokens' keys.
struct KeyQuad {
  float first[4];
  float second[4];
};

// `pair` is d / 2, `token` a multiple of 4. 32 tokens of a pair are 128 bytes in
// bf16; in f32 each element has its own 128 bytes.
__device__ __forceinline__ KeyQuad load_keys(const __nv_bfloat16* block, unsigned pair,
                                             unsigned token) {
  const auto words = load_vector<uint4>(block + (pair * kKvPageTokens + token) * 2);
  return {{low_bf16(words.x), low_bf16(words.y), low_bf16(words.z), low_bf16(words.w)},
          {high_bf16(words.x), high_bf16(words.y), high_bf16(words.z), high_bf16(words.w)}};
}
__device__ __forceinline__ KeyQuad load_keys(const float* block, unsigned pair, unsigned token) {
  const auto first = load_vector<float4>(block + 2 * pair * kKvPageTokens + token);
  const auto second = load_vector<float4>(block + (2 * pair + 1) * kKvPageTokens + token);
  return {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
}

}  // namespace troupe::cuda
