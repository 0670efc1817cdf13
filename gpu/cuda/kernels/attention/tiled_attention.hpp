// SPDX-License-Identifier: Apache-2.0
// The tiles of a plan, on tensor cores: part of paged attention.
#pragma once

#include "gpu/cuda/kernels/attention/paged_attention.hpp"

namespace troupe::cuda {

// Throws CudaError; std::invalid_argument unless can_tile_attention(layout).
void launch_tiled_attention(const PagedAttentionArguments& arguments, const DeviceAttentionPlan& plan,
                            StreamHandle stream);

// Where on the device the number of a class's items is, or none.
inline const std::uint32_t* count_of_class(const DeviceAttentionPlan& plan, std::size_t index) {
  return plan.counts == nullptr ? nullptr : plan.counts->items.data() + index;
}

}  // namespace troupe::cuda
