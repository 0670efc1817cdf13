// SPDX-License-Identifier: Apache-2.0
// How a batch's attention is cut into pieces that blocks of a GPU compute. Made
// once a batch on the host, used by every layer.
//
// A query row is one token and one head of the group that shares a KV head; an
// item is up to kMaxAttentionRows neighbouring rows of one slice against a range
// of its keys. A long context is split at fixed positions, multiples of
// `split_tokens`, into several items whose partial results are merged
// (split-KV). Where a row is cut depends on its own position only, so its
// result has the same bits whatever else is in the batch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/batch.hpp"

namespace troupe::cuda {

// Items are launched in classes of equal shape.
inline constexpr std::array<std::uint32_t, 3> kAttentionClasses = {1, 4, 8};  // rows
inline constexpr std::uint32_t kMaxAttentionRows = kAttentionClasses.back();
inline constexpr std::uint32_t kNoPartial = 0xFFFFFFFF;

struct AttentionItem {
  std::uint32_t first_row = 0;  // batch token * group size + head of the group
  std::uint32_t num_rows = 0;
  std::int32_t position_offset = 0;  // position of a token = its place in the batch + this
  std::uint32_t first_page = 0;      // index into the batch's page table
  std::uint32_t first_key = 0;       // a position, multiple of the page size
  std::uint32_t end_key = 0;
  std::uint32_t partial = kNoPartial;  // where to leave a partial result
};

// Rows whose result is spread over partial results, in order of keys.
struct AttentionMerge {
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_partial = 0;
  std::uint32_t num_partials = 0;
};

struct AttentionPlan {
  std::array<std::vector<AttentionItem>, kAttentionClasses.size()> items;  // longest first
  std::vector<AttentionMerge> merges;
  std::uint32_t num_partials = 0;
};

struct AttentionLimits {
  std::uint32_t group_size = 1;      // query heads of a KV head
  std::uint32_t split_tokens = 512;  // a multiple of the page size
  std::uint32_t window = 0;          // a token sees so many, itself included; 0: all before it
};

// Slices that share pages (ranges of one context whose middle was known) are
// slices like others. Any thread.
AttentionPlan plan_attention(std::span<const SequenceSlice> slices, const AttentionLimits& limits);

}  // namespace troupe::cuda
