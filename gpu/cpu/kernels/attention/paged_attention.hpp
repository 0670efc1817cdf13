// SPDX-License-Identifier: Apache-2.0
// PagedAttention (gpu/operators/paged_attention.hpp) on CPU cores: a row (token, head)
// walks the pages of its sequence in order and never looks behind its own position,
// however the prompt was cut into chunks.
//
// A block's long context can be split over threads: results of its splits (kSplitTokens keys) are merged
// in a second step. A thread that computes all of them merges them alike, so bits are the same.
//
// Scores of bf16 keys use vdpbf16ps on kAvx512Bf16 and kAmx, with scaled queries rounded
// to bf16; everywhere else, and for weights and sums always, it is f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/paged_attention.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/program/batch.hpp"

namespace troupe {

// One query block: some consecutive query tokens of one sequence.
struct AttentionBlock {
  std::uint32_t first_token = 0;  // row of the batch
  std::uint32_t num_tokens = 0;
  std::uint32_t first_position = 0;  // position in the sequence of the first one
  std::uint32_t first_page = 0;      // index into the batch's page table
  std::uint32_t source_tokens = 0;   // at the sequence's beginning
  std::size_t split = kAllSplits;    // the only one of its keys that it computes
  std::size_t first_partial = 0;     // of a block that is split: float of its partials
};

// Cuts a batch into query blocks, the most expensive first. Depends on the
// slices only: made once a batch, used by every layer.
std::vector<AttentionBlock> plan_attention(std::span<const SequenceSlice> slices, std::size_t num_heads,
                                           std::size_t num_kv_heads);

// The same blocks; one that would take a thread longer than half of its share is cut into splits.
struct SplitBlocks {
  std::vector<AttentionBlock> blocks;  // the most expensive first
  std::vector<AttentionBlock> merges;  // the blocks that were cut
  std::size_t num_partial_floats = 0;  // at most kMaxPartialFloats
};
inline constexpr std::size_t kMaxPartialFloats = std::size_t{2} << 20;
// Only which thread computes a key depends on num_threads.
SplitBlocks split_blocks(std::span<const AttentionBlock> blocks, std::size_t num_heads,
                         const KvLayout& layout, std::size_t num_threads);

struct PagedAttentionArguments {
  std::span<const AttentionBlock> blocks;
  std::span<const AttentionBlock> merges = {};  // SplitBlocks::merges
  float* partials = nullptr;                    // [SplitBlocks::num_partial_floats]
  const PageId* page_table = nullptr;           // Batch::page_table
  const void* kv_pool = nullptr;                // 64-byte aligned
  KvLayout layout;
  std::size_t layer = 0;
  std::size_t num_heads = 0;                // a multiple of layout.num_kv_heads
  const float* queries = nullptr;           // [tokens, num_heads * head_dim], rotated; the
                                            // first columns of qkv with qkv's stride
  std::size_t query_stride = 0;             // elements from token to token
  void* attended = nullptr;                 // [tokens, num_heads * head_dim]
  DataType attended_type = DataType::kF32;  // kF32 or kBF16
  std::size_t attended_stride = 0;
  AttendedPart part = AttendedPart::kAll;
  std::size_t window = 0;        // a token sees so many, itself the last one; 0: all before it
  float scale = 0.0F;            // 1 / sqrt(head_dim) as a rule
  const float* sinks = nullptr;  // [num_heads] or none: a head's softmax has this score, too, of no value
  float soft_cap = 0.0F;         // scaled scores s become soft_cap * tanh(s / soft_cap); 0: they stay
  Isa isa = best_isa();
};

// One task per block and KV head.
std::size_t paged_attention_num_tasks(const PagedAttentionArguments& arguments);
void paged_attention_run_task(const PagedAttentionArguments& arguments, std::size_t task);

// Behind these: one task per block of merges and KV head.
std::size_t merge_splits_num_tasks(const PagedAttentionArguments& arguments);
void merge_splits_run_task(const PagedAttentionArguments& arguments, std::size_t task);

}  // namespace troupe
