// SPDX-License-Identifier: Apache-2.0
// Copies bytes by neighbouring threads: 16 at a time if everything lies so, else
// one by one.
#pragma once

#include "gpu/cuda/kernels/eight.cuh"

namespace troupe::cuda {

inline constexpr unsigned kWordBytes = 16;

__device__ __forceinline__ bool is_multiple_of_word(std::size_t value) {
  return value % kWordBytes == 0;
}

// Of `count` bytes, those of thread `thread` of `num_threads`.
__device__ __forceinline__ void copy_bytes(const std::byte* from, std::byte* to, std::size_t count,
                                           std::size_t thread, std::size_t num_threads) {
  if (is_multiple_of_word(reinterpret_cast<std::uintptr_t>(from) |
                          reinterpret_cast<std::uintptr_t>(to) | count)) {
    for (std::size_t i = thread * kWordBytes; i < count; i += num_threads * kWordBytes) {
      store_vector(to + i, load_vector<uint4>(from + i));
    }
    return;
  }
  for (std::size_t i = thread; i < count; i += num_threads) to[i] = from[i];
}

}  // namespace troupe::cuda
