// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/attention_plan.hpp"

#include <algorithm>
#include <bit>

#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {
namespace {

std::size_t class_of_few(std::uint32_t num_rows) {
  return static_cast<std::size_t>(
      std::lower_bound(kAttentionClasses.begin(), kAttentionClasses.end(), num_rows) -
      kAttentionClasses.begin());
}

// Positions at which every context is split, whoever looks at it.
class Splits {
 public:
  Splits(std::uint32_t split_tokens, std::uint32_t even_splits)
      : split_tokens_(split_tokens), even_splits_(even_splits), half_(even_splits / 2) {}

  // The split that has a position.
  std::uint32_t at(std::uint32_t position) const {
    const std::uint32_t units = position / split_tokens_;
    const auto doublings = static_cast<std::uint32_t>(std::bit_width(units / even_splits_));
    if (doublings == 0) return units;
    const std::uint32_t first_unit = even_splits_ << (doublings - 1);
    return even_splits_ + (doublings - 1) * half_ + ((units - first_unit) >> doublings);
  }
  // Its first position.
  std::uint32_t first_of(std::uint32_t split) const {
    if (split < even_splits_) return split * split_tokens_;
    const std::uint32_t doublings = (split - even_splits_) / half_;
    const std::uint32_t rest = (split - even_splits_) % half_;
    return ((even_splits_ << doublings) + (rest << (doublings + 1))) * split_tokens_;
  }

 private:
  std::uint32_t split_tokens_, even_splits_, half_;
};

// Cuts rows into items, and these into rounds.
class Planner {
 public:
  Planner(const AttentionLimits& limits, AttentionPlan& plan) : limits_(limits), plan_(plan) {}

  // The items of some rows of one slice.
  void add_rows(const AttentionItem& rows, bool is_tile);
  // Ends the last round. Longest items first, so that no block begins late what takes long.
  void end_round();

 private:
  const AttentionLimits& limits_;
  AttentionPlan& plan_;
  AttentionRound round_;
  std::uint32_t num_partials_ = 0;  // of this round
};

void Planner::end_round() {
  bool is_empty = true;
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    is_empty = is_empty && round_.num_items[i] == 0;
    auto& items = plan_.items[i];
    std::stable_sort(items.end() - round_.num_items[i], items.end(), [](const auto& left, const auto& right) {
      return left.end_key - left.first_key > right.end_key - right.first_key;
    });
  }
  if (!is_empty) plan_.rounds.push_back(round_);
  plan_.num_partials = std::max(plan_.num_partials, num_partials_);
  round_ = {};
  num_partials_ = 0;
}

void Planner::add_rows(const AttentionItem& rows, bool is_tile) {
  const auto position_of = [&](std::uint32_t row) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(row / limits_.group_size) +
                                      rows.position_offset);
  };
  const Splits splits(is_tile ? limits_.tile_split_tokens : limits_.split_tokens, limits_.even_splits);
  const std::uint32_t end = position_of(rows.first_row + rows.num_rows - 1) + 1;
  const std::uint32_t first_position = position_of(rows.first_row);
  const bool is_cut = limits_.window != 0 && first_position + 1 > limits_.window;
  const auto page_tokens = static_cast<std::uint32_t>(kKvPageTokens);
  const std::uint32_t begin = is_cut ? (first_position + 1 - limits_.window) / page_tokens * page_tokens : 0;
  const std::uint32_t first_split = splits.at(begin);
  const std::uint32_t num_splits = splits.at(end - 1) + 1 - first_split;
  if (num_splits > 1) {
    if (num_partials_ > 0 && num_partials_ + rows.num_rows * num_splits > limits_.max_partials) end_round();
    plan_.merges.push_back({.first_row = rows.first_row,
                            .num_rows = rows.num_rows,
                            .first_partial = num_partials_,
                            .num_splits = num_splits});
    ++round_.num_merges;
  }
  const std::size_t item_class = is_tile ? kTileClass : class_of_few(rows.num_rows);
  for (std::uint32_t split = first_split; split < first_split + num_splits; ++split) {
    AttentionItem item = rows;
    item.first_key = std::max(begin, splits.first_of(split));
    item.end_key = std::min(end, splits.first_of(split + 1));
    if (num_splits > 1) {
      item.partial = num_partials_;
      num_partials_ += rows.num_rows;
    }
    plan_.items[item_class].push_back(item);
    ++round_.num_items[item_class];
  }
}

}  // namespace

std::uint32_t num_splits_of(std::uint32_t context_length, std::uint32_t split_tokens,
                            std::uint32_t even_splits) {
  return context_length == 0 ? 0 : Splits(split_tokens, even_splits).at(context_length - 1) + 1;
}

AttentionPlan plan_attention(std::span<const SequenceSlice> slices, const AttentionLimits& limits) {
  AttentionPlan plan;
  Planner planner(limits, plan);
  std::uint32_t token = 0;
  for (const auto& slice : slices) {
    const std::uint32_t num_rows = slice.num_tokens * limits.group_size;
    const std::uint32_t end_row = (token + slice.num_tokens) * limits.group_size;
    const std::uint32_t most_few = kAttentionClasses[kTileClass - 1];
    const bool is_tile = limits.has_tiles && num_rows > most_few;
    const std::uint32_t step = is_tile ? kAttentionClasses[kTileClass] : most_few;
    for (std::uint32_t row = token * limits.group_size; row < end_row; row += step) {
      planner.add_rows({.first_row = row,
                        .num_rows = std::min(step, end_row - row),
                        .position_offset = static_cast<std::int32_t>(slice.context_length) -
                                           static_cast<std::int32_t>(token),
                        .first_page = slice.first_page},
                       is_tile);
    }
    token += slice.num_tokens;
  }
  planner.end_round();
  return plan;
}

AttentionPlan plan_self_attention(std::span<const SequenceSlice> slices) {
  AttentionPlan plan;
  std::uint32_t first_token = 0;
  for (const SequenceSlice& slice : slices) {
    for (std::uint32_t row = 0; row < slice.num_tokens; row += kSelfAttentionRows)
      plan.tiles.push_back({.first_token = first_token,
                            .num_tokens = slice.num_tokens,
                            .num_keys = slice.num_tokens - slice.num_padding,
                            .first_row = row});
    first_token += slice.num_tokens;
  }
  std::stable_sort(plan.tiles.begin(), plan.tiles.end(),
                   [](const auto& left, const auto& right) { return left.num_tokens > right.num_tokens; });
  return plan;
}

}  // namespace troupe::cuda
