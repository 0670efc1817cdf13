// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (element i is paired with i + rotary_dim / 2) of
// queries, in place, and of keys on their way to the KV pages; values follow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct RotaryAppendKvArguments {
  void* qkv = nullptr;  // [num_tokens, (num_heads + 2 num_kv_heads) * head_dim] of
                        // layout.type; a row begins at a multiple of 16 bytes
  std::size_t qkv_stride = 0;
  const TokenPlace* places = nullptr;  // [num_tokens], no two the same
  std::uint32_t num_tokens = 0;
  std::uint32_t num_heads = 0;
  // The first elements of a head are rotated, a multiple of 4; 0: none.
  std::uint32_t rotary_dim = 0;
  // [positions, rotary_dim]: cosines, then sines (RotaryTable::row).
  const float* cosines_sines = nullptr;
  std::byte* pool = nullptr;  // of `layout`
  KvLayout layout;
  std::uint32_t layer = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_rotary_append_kv(const RotaryAppendKvArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
