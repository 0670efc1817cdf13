// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/page_copy.hpp"

#include <algorithm>

#include "gpu/cuda/kernels/byte_copy.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kCopyThreads = 256;
constexpr unsigned kMaxPagesOfLaunch = 32768;  // a grid's y

// A block a layer (x) of a page (y).
__global__ void __launch_bounds__(kCopyThreads) page_copy_kernel(const PageCopyArguments a) {
  const std::size_t layer = blockIdx.x;
  const std::uint32_t i = blockIdx.y;
  const std::size_t layer_bytes = kv_page_bytes(a.layout);
  const std::size_t number = a.piece_numbers == nullptr ? i : a.piece_numbers[i];
  std::byte* piece = a.pieces + (number * a.layout.num_layers + layer) * layer_bytes;
  std::byte* page = a.pool + kv_block_offset(a.layout, layer, a.pool_pages[i], 0);
  copy_bytes(a.is_to_pool ? piece : page, a.is_to_pool ? page : piece, layer_bytes, threadIdx.x,
             kCopyThreads);
}

}  // namespace

void launch_page_copy(const PageCopyArguments& arguments, StreamHandle stream) {
  if (arguments.layout.num_layers == 0) return;
  const auto num_layers = static_cast<unsigned>(arguments.layout.num_layers);
  const std::size_t page_bytes = arguments.layout.num_layers * kv_page_bytes(arguments.layout);
  for (std::uint32_t first = 0; first < arguments.num_pages; first += kMaxPagesOfLaunch) {
    PageCopyArguments part = arguments;
    part.pool_pages += first;
    if (part.piece_numbers != nullptr) {
      part.piece_numbers += first;
    } else {
      part.pieces += first * page_bytes;
    }
    part.num_pages = std::min(kMaxPagesOfLaunch, arguments.num_pages - first);
    launch(page_copy_kernel, {.grid = dim3(num_layers, part.num_pages), .block = kCopyThreads},
           stream, part);
  }
}

}  // namespace troupe::cuda
