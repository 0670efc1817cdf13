// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/paged_attention.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

// Rows (tokens times heads of a group) that share a pass over keys and values.
constexpr std::size_t kRowsOfBlock = 32;

std::uint64_t cost_of(const AttentionBlock& block) {
  return std::uint64_t{block.num_tokens} * (block.first_position + block.num_tokens) + block.first_position;
}

}  // namespace

std::vector<AttentionBlock> plan_attention(std::span<const SequenceSlice> slices, std::size_t num_heads,
                                           std::size_t num_kv_heads) {
  const std::size_t group = std::max<std::size_t>(1, num_heads / num_kv_heads);
  const auto step = static_cast<std::uint32_t>(std::max<std::size_t>(1, kRowsOfBlock / group));
  std::vector<AttentionBlock> blocks;
  std::uint32_t token = 0;
  for (const auto& slice : slices) {
    for (std::uint32_t done = 0; done < slice.num_tokens; done += step) {
      blocks.push_back({.first_token = token + done,
                        .num_tokens = std::min(step, slice.num_tokens - done),
                        .first_position = slice.context_length + done,
                        .first_page = slice.first_page,
                        .source_tokens = slice.source_tokens});
    }
    token += slice.num_tokens;
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const auto& left, const auto& right) { return cost_of(left) > cost_of(right); });
  return blocks;
}

std::size_t paged_attention_num_tasks(const PagedAttentionArguments& arguments) {
  return arguments.blocks.size() * arguments.layout.num_kv_heads;
}

void paged_attention_run_task(const PagedAttentionArguments& arguments, std::size_t task) {
  const auto& layout = arguments.layout;
  const auto& block = arguments.blocks[task / layout.num_kv_heads];
  const std::size_t kv_head = task % layout.num_kv_heads;
  const std::size_t group = arguments.num_heads / layout.num_kv_heads;
  const std::size_t column = kv_head * group * layout.head_dim;
  const std::size_t output = block.first_token * arguments.attended_stride + column;
  const std::size_t page_zero = kv_block_offset(layout, arguments.layer, 0, kv_head);
  kernel_table(arguments.isa)
      .attend({
          .queries = arguments.queries + block.first_token * arguments.query_stride + column,
          .query_stride = arguments.query_stride,
          .num_tokens = block.num_tokens,
          .num_group_heads = group,
          .first_position = block.first_position,
          .window = arguments.window,
          .num_hidden = arguments.part == AttendedPart::kAnswer ? block.source_tokens : 0,
          .num_visible = arguments.part == AttendedPart::kSource ? block.source_tokens : 0,
          .pages = arguments.page_table + block.first_page,
          .page_zero = static_cast<const std::byte*>(arguments.kv_pool) + page_zero,
          .page_stride = kv_block_offset(layout, arguments.layer, 1, kv_head) - page_zero,
          .layout = layout,
          .scale = arguments.scale,
          .soft_cap = arguments.soft_cap,
          .sinks = arguments.sinks == nullptr ? nullptr : arguments.sinks + kv_head * group,
          .attended = static_cast<std::byte*>(arguments.attended) + output * size_of(arguments.attended_type),
          .attended_type = arguments.attended_type,
          .attended_stride = arguments.attended_stride,
      });
}

}  // namespace troupe
