// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/attention_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

using namespace troupe;
using cuda::AttentionItem;
using cuda::AttentionPlan;

namespace {

SequenceSlice slice_of(std::uint32_t context, std::uint32_t tokens, std::uint32_t first_page = 0) {
  SequenceSlice slice;
  slice.num_tokens = tokens;
  slice.context_length = context;
  slice.first_page = first_page;
  return slice;
}

std::vector<AttentionItem> all_items(const AttentionPlan& plan) {
  std::vector<AttentionItem> items;
  for (const auto& of_class : plan.items) items.insert(items.end(), of_class.begin(), of_class.end());
  return items;
}

}  // namespace

TEST_CASE("cuda attention plan: every row sees every key it may see in exactly one item") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const cuda::AttentionLimits limits{
        .group_size = 1 + static_cast<std::uint32_t>(random() % 12),
        .split_tokens = 64,
        .even_splits = round % 5 < 2 ? 512U : 2U,
        .window = round % 3 == 0 ? static_cast<std::uint32_t>(1 + random() % 150) : 0,
        .has_tiles = round % 2 == 0};
    std::vector<SequenceSlice> slices;
    for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) {
      slices.push_back(slice_of(random() % 300, 1 + random() % 20));
    }
    const AttentionPlan plan = cuda::plan_attention(slices, limits);
    std::uint32_t token = 0;
    for (const auto& slice : slices) {
      for (std::uint32_t t = 0; t < slice.num_tokens; ++t, ++token) {
        const std::uint32_t position = slice.context_length + t;
        const std::uint32_t row = token * limits.group_size + limits.group_size - 1;
        std::vector<int> seen(position + 1);
        for (const auto& item : all_items(plan)) {
          if (row < item.first_row || row >= item.first_row + item.num_rows) continue;
          REQUIRE(token + item.position_offset == position);
          REQUIRE(item.first_key % 32 == 0);
          REQUIRE(item.end_key > item.first_key);
          for (std::uint32_t key = item.first_key; key < item.end_key && key <= position; ++key) {
            ++seen[key];
          }
        }
        const std::uint32_t first =
            limits.window != 0 && position + 1 > limits.window ? position + 1 - limits.window : 0;
        REQUIRE(std::all_of(seen.begin() + first, seen.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("cuda attention plan: partial results are numbered and merged in order of keys") {
  const auto plan =
      cuda::plan_attention({{slice_of(1000, 1), slice_of(10, 3)}}, {.group_size = 4, .split_tokens = 512});
  REQUIRE(plan.merges.size() == 1);
  CHECK(plan.num_partials == 8);  // of four rows in two splits
  CHECK(plan.merges[0].num_rows == 4);
  CHECK(plan.merges[0].num_splits == 2);
  REQUIRE(plan.items[1].size() == 3);  // four rows: the decode, and the prefill's third token
  CHECK(plan.items[1][0].first_key == 0);
  CHECK(plan.items[1][0].partial == 0);
  CHECK(plan.items[1][1].first_key == 512);
  CHECK(plan.items[1][1].end_key == 1001);
  CHECK(plan.items[1][1].partial == 4);
  CHECK(plan.items[1][2].partial == cuda::kNoPartial);
  CHECK(plan.items[2].size() == 1);
  CHECK(plan.items[0].empty());
}

TEST_CASE("cuda attention plan: splits of long contexts are longer, at the same positions for each row") {
  const cuda::AttentionLimits limits{.group_size = 1, .split_tokens = 32, .even_splits = 4};
  const std::vector<std::uint32_t> begins = {0, 32, 64, 96, 128, 192, 256, 384, 512, 768};
  for (std::uint32_t context = 0; context < 900; ++context) {
    const AttentionPlan plan = cuda::plan_attention({{slice_of(context, 1)}}, limits);
    auto items = all_items(plan);
    std::sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.first_key < b.first_key; });
    REQUIRE(items.size() == cuda::num_splits_of(context + 1, 32, 4));
    for (std::size_t i = 0; i < items.size(); ++i) {
      REQUIRE(items[i].first_key == begins[i]);
      REQUIRE(items[i].end_key == std::min(context + 1, i + 1 < begins.size() ? begins[i + 1] : 1024));
    }
  }
  CHECK(cuda::num_splits_of(131'072, 256, 512) == 512);  // even up to there
  CHECK(cuda::num_splits_of(1'048'576, 256, 512) == 512 + 3 * 256);
  CHECK(cuda::num_splits_of(0, 256, 512) == 0);
}

TEST_CASE("cuda attention plan: a round has all of a merge, and partial results that fit") {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const cuda::AttentionLimits limits{.group_size = 1 + static_cast<std::uint32_t>(random() % 12),
                                       .split_tokens = 64,
                                       .tile_split_tokens = 128,
                                       .has_tiles = round % 2 == 0,
                                       .max_partials = 1 + static_cast<std::uint32_t>(random() % 400)};
    std::vector<SequenceSlice> slices;
    for (std::uint32_t i = 0; i < 1 + random() % 6; ++i)
      slices.push_back(slice_of(random() % 400, 1 + random() % 20));
    const AttentionPlan plan = cuda::plan_attention(slices, limits);
    auto unlimited = limits;
    unlimited.max_partials = std::numeric_limits<std::uint32_t>::max();
    const AttentionPlan at_once = cuda::plan_attention(slices, unlimited);
    REQUIRE(at_once.rounds.size() == 1);
    REQUIRE(all_items(plan).size() == all_items(at_once).size());
    REQUIRE(plan.merges.size() == at_once.merges.size());
    std::array<std::size_t, cuda::kAttentionClasses.size()> first_items{};
    std::size_t first_merge = 0;
    for (const auto& of_round : plan.rounds) {
      std::vector<int> written(plan.num_partials), merged(plan.num_partials);
      for (std::size_t i = 0; i < plan.items.size(); ++i) {
        for (std::size_t end = first_items[i] + of_round.num_items[i]; first_items[i] < end;
             ++first_items[i]) {
          const AttentionItem& item = plan.items[i].at(first_items[i]);
          if (item.partial == cuda::kNoPartial) continue;
          for (std::uint32_t row = 0; row < item.num_rows; ++row) ++written.at(item.partial + row);
        }
      }
      std::uint32_t largest = 0;
      for (std::size_t end = first_merge + of_round.num_merges; first_merge < end; ++first_merge) {
        const auto& merge = plan.merges.at(first_merge);
        largest = std::max(largest, merge.num_rows * merge.num_splits);
        for (std::uint32_t i = 0; i < merge.num_rows * merge.num_splits; ++i)
          ++merged.at(merge.first_partial + i);
      }
      REQUIRE(written == merged);
      REQUIRE(std::all_of(written.begin(), written.end(), [](int n) { return n <= 1; }));
      const auto used = static_cast<std::uint32_t>(std::count(written.begin(), written.end(), 1));
      REQUIRE(used <= std::max(limits.max_partials, largest));
    }
    REQUIRE(first_merge == plan.merges.size());
  }
}

TEST_CASE("cuda attention plan: nothing to attend to is an empty plan") {
  const auto plan = cuda::plan_attention({}, {.group_size = 4});
  CHECK(all_items(plan).empty());
  CHECK(plan.merges.empty());
  CHECK(plan.rounds.empty());
}
