// SPDX-License-Identifier: Apache-2.0
// AttendStates and AdditiveAttention (gpu/operators/cells/) on a GPU. A block has a node; it walks
// the node's states 32 at a time with an online softmax, finding their rows by number. The order
// of all sums depends on the node alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// Device pointers.
struct StateAttentionArguments {
  StateRows state;
  std::size_t key_offset = 0, value_offset = 0;  // floats of a row
  const float* query = nullptr;                  // [nodes, width]
  const float* score_weight = nullptr;           // [width], of additive scores; none: dot products
  const float* beside = nullptr;                 // [nodes, beside_width]: what lies beside the context
  std::uint32_t beside_width = 0;
  bool is_context_first = true;
  float* both = nullptr;  // [nodes, width + beside_width]
  std::uint32_t width = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_state_attention(const StateAttentionArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
