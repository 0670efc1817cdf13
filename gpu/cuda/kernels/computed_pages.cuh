// SPDX-License-Identifier: Apache-2.0
// KV pages of a GPU are in the type that products compute in, never in 8 bits. A kernel that
// says so to the compiler has registers left that the other case would take.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// As kv_block_offset().
__device__ __forceinline__ std::size_t computed_block_offset(KvLayout layout, std::size_t layer,
                                                             std::uint32_t page, std::size_t kv_head) {
  layout.kv_type = KvType::kComputed;
  return kv_block_offset(layout, layer, page, kv_head);
}

}  // namespace troupe::cuda
