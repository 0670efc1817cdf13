// SPDX-License-Identifier: Apache-2.0
// How a batch's attention is cut into pieces that blocks of a GPU compute. Made
// once a batch on the host, used by every layer.
//
// A query row is one token and one head of the group that shares a KV head; an
// item is some neighbouring rows of one slice against a range of its keys: a few
// rows, for which reading keys and values is all the work, or a tile of 64 for
// the tensor cores. A long context is split at fixed positions into several
// items whose partial results are merged (split-KV). Where a row is cut depends
// on its own position only, so its result has the same bits whatever else is in
// the batch; few rows and tiles differ by the rounding of bf16. Partial results that
// don't fit into their memory at once are made and merged in rounds.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe::cuda {

// Items are launched in classes of equal shape: the most rows of each.
inline constexpr std::array<std::uint32_t, 4> kAttentionClasses = {1, 4, 8, 64};
inline constexpr std::size_t kTileClass = 3;
inline constexpr std::uint32_t kNoPartial = 0xFFFFFFFF;

struct AttentionItem {
  std::uint32_t first_row = 0;  // batch token * group size + head of the group
  std::uint32_t num_rows = 0;
  std::int32_t position_offset = 0;  // position of a token = its place in the batch + this
  std::uint32_t first_page = 0;      // index into the batch's page table
  std::uint32_t first_key = 0;       // a position, multiple of the page size
  std::uint32_t end_key = 0;
  std::uint32_t partial = kNoPartial;  // number of the first row's partial result
};

// Rows whose result is spread over splits: row r of split s has partial result
// first_partial + s * num_rows + r.
struct AttentionMerge {
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_partial = 0;
  std::uint32_t num_splits = 0;
};

// Some neighbouring query rows of one slice that is a whole sequence, for attention to
// both sides.
inline constexpr std::uint32_t kSelfAttentionRows = 16;
struct SelfAttentionTile {
  std::uint32_t first_token = 0;  // of the slice, in the batch
  std::uint32_t num_tokens = 0;   // of the slice
  std::uint32_t num_keys = 0;     // so, too: all but its padding
  std::uint32_t first_row = 0;    // in the slice; there are kSelfAttentionRows, or what is left
};

// The next so many items and merges, whose partial results are in memory together.
struct AttentionRound {
  std::array<std::uint32_t, kAttentionClasses.size()> num_items{};
  std::uint32_t num_merges = 0;
};

// A batch has either items, over pages, or tiles.
struct AttentionPlan {
  std::array<std::vector<AttentionItem>, kAttentionClasses.size()> items;  // of a round, longest first
  std::vector<AttentionMerge> merges;
  std::vector<AttentionRound> rounds;    // in order, of all items and merges; none if there are none
  std::uint32_t num_partials = 0;        // of the round that has most
  std::vector<SelfAttentionTile> tiles;  // of the longest slices first
};

struct AttentionLimits {
  std::uint32_t group_size = 1;  // query heads of a KV head
  // Where contexts are split, for few rows and for tiles: multiples of the page size. So short
  // that one stream is work for all of a GPU, and that partial results are 3 % of the bytes.
  std::uint32_t split_tokens = 256;
  std::uint32_t tile_split_tokens = 4096;
  // The first splits are so long, half as many that follow twice as long, as many again twice
  // as long as these, and so on: items of the longest contexts are few. A power of two.
  std::uint32_t even_splits = 512;
  // A token sees so many in every layer, itself included; 0: all before it, or layers differ.
  std::uint32_t window = 0;
  bool has_tiles = false;  // can_tile_attention()
  // Partial rows that there is memory for; a single item's rows get theirs in any case.
  std::uint32_t max_partials = std::numeric_limits<std::uint32_t>::max();
};

// Splits of a context of so many tokens, the first split_tokens long.
std::uint32_t num_splits_of(std::uint32_t context_length, std::uint32_t split_tokens,
                            std::uint32_t even_splits);

// Slices that share pages (ranges of one context whose middle was known) are
// slices like others. Any thread.
AttentionPlan plan_attention(std::span<const SequenceSlice> slices, const AttentionLimits& limits);

// For slices that are whole sequences. Any thread.
AttentionPlan plan_self_attention(std::span<const SequenceSlice> slices);

}  // namespace troupe::cuda
