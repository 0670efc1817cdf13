// SPDX-License-Identifier: Apache-2.0
// SelfAttention (gpu/operators/self_attention.hpp) on CPU cores. A task takes one head of
// one slice: it packs keys and values in the order of KV pages (kv_layout.hpp) into memory
// of its own, and goes on as paged attention does.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/batch_rows.hpp"

namespace troupe {

struct SelfAttentionArguments {
  std::span<const BatchRows> slices;  // the longest first, so that threads end together
  const float* qkv = nullptr;         // [tokens, 3 * num_heads * head_dim]: q, k, v
  std::size_t num_heads = 0;
  std::size_t head_dim = 0;                 // a multiple of 8, at most kMaxHeadDim
  void* attended = nullptr;                 // [tokens, num_heads * head_dim]
  DataType attended_type = DataType::kF32;  // kF32 or kBF16
  float scale = 0.0F;                       // 1 / sqrt(head_dim) as a rule
  Isa isa = best_isa();
};

// Memory of a running task whose slice has at most so many tokens.
std::size_t self_attention_scratch_bytes(std::size_t max_tokens, std::size_t head_dim);

std::size_t self_attention_num_tasks(const SelfAttentionArguments& arguments);
// `scratch`: 64-byte aligned, of no other task that runs.
void self_attention_run_task(const SelfAttentionArguments& arguments, std::size_t task, std::byte* scratch);

}  // namespace troupe
