// SPDX-License-Identifier: Apache-2.0
// The tiles of a plan, on tensor cores: part of paged attention.
#pragma once

#include "gpu/cuda/kernels/paged_attention.hpp"

namespace troupe::cuda {

// Throws CudaError; std::invalid_argument unless can_tile_attention(layout).
void launch_tiled_attention(const PagedAttentionArguments& arguments, const AttentionItem* items,
                            std::uint32_t num_items, StreamHandle stream);

}  // namespace troupe::cuda
