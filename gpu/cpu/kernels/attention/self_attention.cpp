// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/self_attention.hpp"

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {
namespace {

KvLayout layout_of(std::size_t num_tokens, std::size_t head_dim) {
  return {.num_layers = 1,
          .num_pages = (num_tokens + kKvPageTokens - 1) / kKvPageTokens,
          .num_kv_heads = 1,
          .head_dim = head_dim,
          .type = DataType::kF32};
}

}  // namespace

std::size_t self_attention_scratch_bytes(std::size_t max_tokens, std::size_t head_dim) {
  return (kv_pool_bytes(layout_of(max_tokens, head_dim)) + 63) / 64 * 64;
}

std::size_t self_attention_num_tasks(const SelfAttentionArguments& arguments) {
  return arguments.slices.size() * arguments.num_heads;
}

void self_attention_run_task(const SelfAttentionArguments& arguments, std::size_t task, std::byte* scratch) {
  const auto& kernels = kernel_table(arguments.isa);
  const BatchRows& slice = arguments.slices[task / arguments.num_heads];
  const std::size_t width = arguments.num_heads * arguments.head_dim;
  const std::size_t column = task % arguments.num_heads * arguments.head_dim;
  const float* queries = arguments.qkv + slice.first_token * 3 * width + column;
  const std::size_t output = slice.first_token * width + column;
  const std::size_t num_keys = slice.num_content();
  const KvLayout layout = layout_of(num_keys, arguments.head_dim);
  kernels.pack_head({.keys = queries + width,
                     .values = queries + 2 * width,
                     .stride = 3 * width,
                     .num_tokens = num_keys,
                     .layout = layout,
                     .pages = scratch});
  kernels.attend(
      {.queries = queries,
       .query_stride = 3 * width,
       .num_tokens = slice.num_tokens,
       .num_group_heads = 1,
       .num_visible = num_keys,
       .page_zero = scratch,
       .page_stride = kv_block_bytes(layout),
       .layout = layout,
       .scale = arguments.scale,
       .attended = static_cast<std::byte*>(arguments.attended) + output * size_of(arguments.attended_type),
       .attended_type = arguments.attended_type,
       .attended_stride = width});
}

}  // namespace troupe
