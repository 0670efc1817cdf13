// SPDX-License-Identifier: Apache-2.0
// SelfAttention (gpu/operators/self_attention.hpp) on a GPU. A block has a tile of
// neighbouring query rows of one slice and a head; it walks the slice's keys 32 at a time
// with an online softmax. Where a row is cut depends on its slice alone.
#pragma once

#include <cstdint>

#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; rows lie one behind the other.
struct SelfAttentionArguments {
  const SelfAttentionTile* tiles = nullptr;  // [num_tiles], of plan_self_attention()
  std::uint32_t num_tiles = 0;
  const void* qkv = nullptr;  // [tokens, 3 * num_heads * head_dim] of `type`: q, k, v
  std::uint32_t num_heads = 0;
  std::uint32_t head_dim = 0;      // at most kMaxHeadDim
  void* attended = nullptr;        // [tokens, num_heads * head_dim] of `type`
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  float scale = 0.0F;              // 1 / sqrt(head_dim) as a rule
};

// Throws CudaError. Any thread.
void launch_self_attention(const SelfAttentionArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
