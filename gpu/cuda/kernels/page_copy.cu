// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/page_copy.hpp"

#include <algorithm>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kCopyThreads = 256;
constexpr unsigned kMaxPagesOfLaunch = 32768;  // a grid's y

constexpr unsigned kWordBytes = 16;
constexpr unsigned kWordsAhead = 4;  // on their way to a thread at once

__device__ __forceinline__ bool is_multiple_of_word(std::size_t value) { return value % kWordBytes == 0; }

// By neighbouring threads, 16 bytes at a time if everything lies so, else one by one. `from` and `to` lie
// apart. Copies thread `thread`'s share, of `num_threads`, of `count` bytes.
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

// A block a layer (x) of a page (y), or of several pages.
__global__ void __launch_bounds__(kCopyThreads) page_copy_kernel(const PageCopyArguments a) {
  const std::size_t layer = a.first_layer + blockIdx.x;
  const std::size_t layer_bytes = kv_page_bytes(a.layout);
  for (std::uint32_t i = blockIdx.y; i < a.num_pages; i += gridDim.y) {
    const std::size_t number = a.piece_numbers == nullptr ? i : a.piece_numbers[i];
    std::byte* piece = a.pieces + (number * a.layout.num_layers + layer) * layer_bytes;
    std::byte* page = a.pool + kv_block_offset(a.layout, layer, a.pool_pages[i], 0);
    copy_bytes(a.is_to_pool ? piece : page, a.is_to_pool ? page : piece, layer_bytes, threadIdx.x,
               kCopyThreads);
  }
}

}  // namespace

void launch_page_copy(const PageCopyArguments& arguments, StreamHandle stream) {
  const auto all_layers = static_cast<unsigned>(arguments.layout.num_layers);
  const unsigned num_layers = arguments.num_layers == 0 ? all_layers : arguments.num_layers;
  if (num_layers == 0 || arguments.num_pages == 0) return;
  const unsigned most =
      arguments.max_blocks == 0 ? kMaxPagesOfLaunch : std::max(1U, arguments.max_blocks / num_layers);
  const unsigned rows = std::min({arguments.num_pages, most, kMaxPagesOfLaunch});
  launch(page_copy_kernel, {.grid = dim3(num_layers, rows), .block = kCopyThreads}, stream, arguments);
}

}  // namespace troupe::cuda
