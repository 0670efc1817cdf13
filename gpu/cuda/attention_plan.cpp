// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/attention_plan.hpp"

#include <algorithm>

#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {
namespace {

std::size_t class_of_few(std::uint32_t num_rows) {
  return static_cast<std::size_t>(
      std::lower_bound(kAttentionClasses.begin(), kAttentionClasses.end(), num_rows) -
      kAttentionClasses.begin());
}

// Adds the items of some rows of one slice.
void add_rows(AttentionItem rows, bool is_tile, const AttentionLimits& limits, AttentionPlan& plan) {
  const auto position_of = [&](std::uint32_t row) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(row / limits.group_size) +
                                      rows.position_offset);
  };
  const std::uint32_t split_tokens = is_tile ? limits.tile_split_tokens : limits.split_tokens;
  const std::uint32_t end = position_of(rows.first_row + rows.num_rows - 1) + 1;
  const std::uint32_t first_position = position_of(rows.first_row);
  const bool is_cut = limits.window != 0 && first_position + 1 > limits.window;
  const auto page_tokens = static_cast<std::uint32_t>(kKvPageTokens);
  const std::uint32_t begin = is_cut ? (first_position + 1 - limits.window) / page_tokens * page_tokens : 0;
  const std::uint32_t first_split = begin / split_tokens;
  const std::uint32_t num_splits = (end - 1) / split_tokens + 1 - first_split;
  if (num_splits > 1) {
    plan.merges.push_back({.first_row = rows.first_row,
                           .num_rows = rows.num_rows,
                           .first_partial = plan.num_partials,
                           .num_splits = num_splits});
  }
  for (std::uint32_t split = first_split; split < first_split + num_splits; ++split) {
    AttentionItem item = rows;
    item.first_key = std::max(begin, split * split_tokens);
    item.end_key = std::min(end, (split + 1) * split_tokens);
    if (num_splits > 1) {
      item.partial = plan.num_partials;
      plan.num_partials += rows.num_rows;
    }
    plan.items[is_tile ? kTileClass : class_of_few(rows.num_rows)].push_back(item);
  }
}

}  // namespace

AttentionPlan plan_attention(std::span<const SequenceSlice> slices, const AttentionLimits& limits) {
  AttentionPlan plan;
  std::uint32_t token = 0;
  for (const auto& slice : slices) {
    const std::uint32_t num_rows = slice.num_tokens * limits.group_size;
    const std::uint32_t end_row = (token + slice.num_tokens) * limits.group_size;
    const std::uint32_t most_few = kAttentionClasses[kTileClass - 1];
    const bool is_tile = limits.has_tiles && num_rows > most_few;
    const std::uint32_t step = is_tile ? kAttentionClasses[kTileClass] : most_few;
    for (std::uint32_t row = token * limits.group_size; row < end_row; row += step) {
      add_rows({.first_row = row,
                .num_rows = std::min(step, end_row - row),
                .position_offset =
                    static_cast<std::int32_t>(slice.context_length) - static_cast<std::int32_t>(token),
                .first_page = slice.first_page},
               is_tile, limits, plan);
    }
    token += slice.num_tokens;
  }
  for (auto& items : plan.items) {
    std::stable_sort(items.begin(), items.end(), [](const auto& left, const auto& right) {
      return left.end_key - left.first_key > right.end_key - right.first_key;
    });
  }
  return plan;
}

AttentionPlan plan_self_attention(std::span<const SequenceSlice> slices) {
  AttentionPlan plan;
  std::uint32_t first_token = 0;
  for (const SequenceSlice& slice : slices) {
    for (std::uint32_t row = 0; row < slice.num_tokens; row += kSelfAttentionRows)
      plan.tiles.push_back({.first_token = first_token, .num_tokens = slice.num_tokens, .first_row = row});
    first_token += slice.num_tokens;
  }
  std::stable_sort(plan.tiles.begin(), plan.tiles.end(),
                   [](const auto& left, const auto& right) { return left.num_tokens > right.num_tokens; });
  return plan;
}

}  // namespace troupe::cuda
