// SPDX-License-Identifier: Apache-2.0
// Copies KV pages between the pool, where the layers of a page lie apart, and
// memory where a page is one piece, [layer][bytes of a layer]: a staging buffer
// or pages of the host tier, mapped. All pages and layers in one launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Blocks that copy at once: enough bytes on their way to fill a link (64 GB/s for
// 2 µs are 128 KB, a block has 16 KB under way), few enough to leave the
// processors to kernels that compute.
inline constexpr std::uint32_t kCopyBlocks = 32;

// Device pointers. No page is named twice on the side that is written.
struct PageCopyArguments {
  std::byte* pool = nullptr;  // of `layout`
  KvLayout layout;
  const std::uint32_t* pool_pages = nullptr;     // [num_pages]
  std::byte* pieces = nullptr;                   // [.., num_layers, kv_page_bytes(layout)]
  const std::uint32_t* piece_numbers = nullptr;  // [num_pages], or none: 0, 1, 2 …
  std::uint32_t num_pages = 0;
  bool is_to_pool = false;
  // Layers to copy; num_layers 0: all.
  std::uint32_t first_layer = 0;
  std::uint32_t num_layers = 0;
  // At most about so many blocks, each with several pages, so that a copy over a
  // slow link leaves the processors to others; 0: a block a page and layer.
  std::uint32_t max_blocks = 0;
};

// Throws CudaError. Any thread.
void launch_page_copy(const PageCopyArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
