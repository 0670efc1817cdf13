// SPDX-License-Identifier: Apache-2.0
// Copies bytes by neighbouring threads: 16 at a time if everything lies so, else
// one by one.
#pragma once

#include "gpu/cuda/kernels/eight.cuh"

namespace troupe::cuda {

inline constexpr unsigned kWordBytes = 16;
inline constexpr unsigned kWordsAhead = 4;  // on their way to a thread at once

__device__ __forceinline__ bool is_multiple_of_word(std::size_t value) { return value % kWordBytes == 0; }

// `from` and `to` lie apart. Copies thread `thread`'s share, of `num_threads`, of `count` bytes.
__device__ __forceinline__ void copy_bytes(const std::byte* from, std::byte* to, std::size_t count,
                                           std::size_t thread, std::size_t num_threads) {
  if (is_multiple_of_word(reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                          count)) {
    const std::size_t num_words = count / kWordBytes;
    // All are read before the first is written: the compiler, which cannot know that
    // they lie apart, would wait for each.
    for (std::size_t first = thread; first < num_words; first += kWordsAhead * num_threads) {
      uint4 words[kWordsAhead];
#pragma unroll
      for (unsigned i = 0; i < kWordsAhead; ++i) {
        const std::size_t word = first + i * num_threads;
        if (word < num_words) words[i] = load_vector<uint4>(from + word * kWordBytes);
      }
#pragma unroll
      for (unsigned i = 0; i < kWordsAhead; ++i) {
        const std::size_t word = first + i * num_threads;
        if (word < num_words) store_vector(to + word * kWordBytes, words[i]);
      }
    }
    return;
  }
  for (std::size_t i = thread; i < count; i += num_threads) to[i] = from[i];
}

}  // namespace troupe::cuda
