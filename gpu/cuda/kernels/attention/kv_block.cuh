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

// Accesses of a lane that are under way before the first is used: a warp alone waits for
// memory as long as a few hundred of its instructions take.
template <typename T>
inline constexpr unsigned kLoadsAhead = sizeof(T) == 2 ? 8 : 4;

// Keys as load_keys() reads them: one access in bf16 and f16, two in f32.
template <typename T>
struct RawKeys {
  uint4 words;
};
template <>
struct RawKeys<float> {
  float4 first, second;
};

// `pair` is d / 2, `token` a multiple of 4. 32 tokens of a pair are 128 bytes in
// bf16 and f16; in f32 each element has its own 128 bytes.
template <typename T>
__device__ __forceinline__ RawKeys<T> load_keys(const T* block, unsigned pair, unsigned token) {
  if constexpr (sizeof(T) == 2) {
    return {load_vector<uint4>(block + (pair * kKvPageTokens + token) * 2)};
  } else {
    return {load_vector<float4>(block + 2 * pair * kKvPageTokens + token),
            load_vector<float4>(block + (2 * pair + 1) * kKvPageTokens + token)};
  }
}
template <typename T>
__device__ __forceinline__ KeyQuad unpack_keys(const RawKeys<T>& raw) {
  if constexpr (sizeof(T) == 2) {
    const float2 first = unpack<T>(raw.words.x), second = unpack<T>(raw.words.y),
                 third = unpack<T>(raw.words.z), fourth = unpack<T>(raw.words.w);
    return {{first.x, second.x, third.x, fourth.x}, {first.y, second.y, third.y, fourth.y}};
  } else {
    return {{raw.first.x, raw.first.y, raw.first.z, raw.first.w},
            {raw.second.x, raw.second.y, raw.second.z, raw.second.w}};
  }
}

}  // namespace troupe::cuda
