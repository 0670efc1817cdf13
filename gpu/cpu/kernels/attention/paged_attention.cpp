// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/paged_attention.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Rows (tokens times heads of a group) that share a pass over keys and values.
constexpr std::size_t kRowsOfBlock = 32;

std::uint64_t cost_of(const AttentionBlock& block) {
  if (block.split != kAllSplits) return (std::uint64_t{block.num_tokens} + 1) * kSplitTokens;
  return std::uint64_t{block.num_tokens} * (block.first_position + block.num_tokens) + block.first_position;
}

void sort_by_cost(std::vector<AttentionBlock>& blocks) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const auto& left, const auto& right) { return cost_of(left) > cost_of(right); });
}

std::size_t num_splits_of(const AttentionBlock& block) {
  return (block.first_position + block.num_tokens + kSplitTokens - 1) / kSplitTokens;
}

// Floats of a block's partials of one split and KV head.
std::size_t partials_of_head(const AttentionBlock& block, std::size_t group, const KvLayout& layout) {
  return block.num_tokens * group * partial_floats(layout.head_dim);
}

AttentionWork work_of(const PagedAttentionArguments& arguments, const AttentionBlock& block,
                      std::size_t kv_head) {
  const auto& layout = arguments.layout;
  const std::size_t group = arguments.num_heads / layout.num_kv_heads;
  const std::size_t column = kv_head * group * layout.head_dim;
  const std::size_t output = block.first_token * arguments.attended_stride + column;
  const std::size_t page_zero = kv_block_offset(layout, arguments.layer, 0, kv_head);
  const std::size_t partials = partials_of_head(block, group, layout);
  return {
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
      .split = block.split,
      .partials = arguments.partials == nullptr
                      ? nullptr
                      : arguments.partials + block.first_partial + kv_head * partials,
      .split_stride = layout.num_kv_heads * partials,
  };
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
  sort_by_cost(blocks);
  return blocks;
}

SplitBlocks split_blocks(std::span<const AttentionBlock> blocks, std::size_t num_heads,
                         const KvLayout& layout, std::size_t num_threads) {
  SplitBlocks result;
  std::uint64_t cost = 0;
  for (const AttentionBlock& block : blocks) cost += cost_of(block) * layout.num_kv_heads;
  // A thread that begins a task at the end of its share is late by half of it at most.
  const auto is_too_long = [&](const AttentionBlock& block) {
    return num_threads > 1 && 2 * cost_of(block) * num_threads > cost && num_splits_of(block) > 1;
  };
  for (AttentionBlock block : blocks) {
    const std::size_t num_floats = num_splits_of(block) * layout.num_kv_heads *
                                   partials_of_head(block, num_heads / layout.num_kv_heads, layout);
    if (!is_too_long(block) || num_floats > kMaxPartialFloats - result.num_partial_floats) {
      result.blocks.push_back(block);
      continue;
    }
    block.first_partial = result.num_partial_floats;
    result.num_partial_floats += num_floats;
    result.merges.push_back(block);
    for (std::size_t split = 0; split < num_splits_of(block); ++split) {
      block.split = split;
      result.blocks.push_back(block);
    }
  }
  sort_by_cost(result.blocks);
  return result;
}

std::size_t paged_attention_num_tasks(const PagedAttentionArguments& arguments) {
  return arguments.blocks.size() * arguments.layout.num_kv_heads;
}

void paged_attention_run_task(const PagedAttentionArguments& arguments, std::size_t task) {
  const std::size_t num_kv_heads = arguments.layout.num_kv_heads;
  const AttentionBlock& block = arguments.blocks[task / num_kv_heads];
  kernel_table(arguments.isa).attend(work_of(arguments, block, task % num_kv_heads));
}

std::size_t merge_splits_num_tasks(const PagedAttentionArguments& arguments) {
  return arguments.merges.size() * arguments.layout.num_kv_heads;
}

void merge_splits_run_task(const PagedAttentionArguments& arguments, std::size_t task) {
  const std::size_t num_kv_heads = arguments.layout.num_kv_heads;
  const AttentionBlock& block = arguments.merges[task / num_kv_heads];
  kernel_table(arguments.isa).merge_splits(work_of(arguments, block, task % num_kv_heads));
}

}  // namespace troupe
