// SPDX-License-Identifier: Apache-2.0
// Causal attention of every query token of a batch over the KV pages of its own
// sequence: decode and prefill, grouped-query heads, ranges of one context and
// sliding windows in one call (Pensieve §3.4, multi-token paged attention),
// online softmax in f32, long contexts split (Dao et al., 2023, "Flash-Decoding").
//
// Items of few rows are bound by the bandwidth of reading keys and values, each
// read once for all rows of an item; tiles of 64 rows use tensor cores
// (tiled_attention.cu). The batch's own keys and values are appended before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct PagedAttentionArguments {
  const std::uint32_t* page_table = nullptr;  // Batch::page_table
  const std::byte* pool = nullptr;            // of `layout`
  KvLayout layout;
  std::uint32_t layer = 0;
  std::uint32_t group_size = 1;   // query heads of a KV head
  std::uint32_t window = 0;       // of this layer; the plan's items may have more keys
  float scale = 0.0F;             // 1 / sqrt(head_dim) as a rule
  const void* queries = nullptr;  // [tokens, num_heads * head_dim] of layout.type, rotated
  std::size_t query_stride = 0;
  void* attended = nullptr;  // [tokens, num_heads * head_dim] of layout.type
  std::size_t attended_stride = 0;
  float* partials = nullptr;  // attention_partial_floats(), uninitialised
  // May start while the kernel before in the stream still runs, which must not write the plan.
  bool overlaps_previous = false;
};

// How many of the launched blocks have something to do: lets a captured graph
// with room for the longest contexts be replayed for shorter ones.
struct AttentionCounts {
  std::array<std::uint32_t, kAttentionClasses.size()> items{};
  std::uint32_t merges = 0;
};

// The plan's items and merges, copied to the device.
struct DeviceAttentionPlan {
  std::array<const AttentionItem*, kAttentionClasses.size()> items{};
  std::array<std::uint32_t, kAttentionClasses.size()> num_items{};  // blocks to launch
  const AttentionMerge* merges = nullptr;
  std::uint32_t num_merges = 0;             // blocks to launch
  const AttentionCounts* counts = nullptr;  // on the device, at most those; or none: all
};

// True if AttentionLimits::has_tiles may be set: bf16 or f16, head_dim 64 or 128.
// Queries and results then begin at multiples of 4 bytes.
bool can_tile_attention(const KvLayout& layout);

// Floats of PagedAttentionArguments::partials.
std::size_t attention_partial_floats(const KvLayout& layout, std::uint32_t num_partials);

// Throws CudaError. Any thread. A launch a class that has items, one more if
// something must be merged.
void launch_paged_attention(const PagedAttentionArguments& arguments, const DeviceAttentionPlan& plan,
                            StreamHandle stream);

}  // namespace troupe::cuda
