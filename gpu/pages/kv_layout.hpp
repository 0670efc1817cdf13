// SPDX-License-Identifier: Apache-2.0
// Where keys and values live. The pool is one piece of memory:
//
//   [layer][page][kv head] blocks; a block holds 32 tokens of one head:
//     keys   kF32:        [head_dim][32 tokens]        (transposed: 32 scores at once)
//            kBF16, kF16: [head_dim / 2][32 tokens][2]  (pairs along head_dim)
//     values [32 tokens][padded head_dim], head_dim padded to a multiple of 16
//   in 8 bits (KvType::kQ8) these are int8 in the order of the layout's type, and behind them
//     scales bf16[32] of the tokens' keys, bf16[32] of their values
//
// A page of one layer is contiguous, so moving a page between tiers is one copy
// per layer. Padding is never read as a result and need not be initialised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/data_type.hpp"

namespace troupe {

inline constexpr std::size_t kKvPageTokens = 32;
inline constexpr std::size_t kMaxHeadDim = 256;

struct KvLayout {
  std::size_t num_layers = 0;
  std::size_t num_pages = 0;
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;         // a multiple of 8, at most kMaxHeadDim
  DataType type = DataType::kBF16;  // kF32 or kBF16; on a GPU also kF16
  KvType kv_type = KvType::kComputed;
};

// always_inline: these are also compiled with wide instruction sets, and no
// copy of them may end up where other code would call it.

[[gnu::always_inline]] constexpr std::size_t padded_head_dim(std::size_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}

// One head's keys and values of one page.
[[gnu::always_inline]] constexpr std::size_t kv_block_elements(const KvLayout& layout) {
  return kKvPageTokens * (layout.head_dim + padded_head_dim(layout.head_dim));
}
[[gnu::always_inline]] constexpr std::size_t kv_element_bytes(const KvLayout& layout) {
  if (layout.kv_type == KvType::kQ8) return 1;
  return layout.type == DataType::kF32 ? 4 : 2;
}
[[gnu::always_inline]] constexpr std::size_t kv_block_bytes(const KvLayout& layout) {
  const std::size_t scales = layout.kv_type == KvType::kQ8 ? 2 * kKvPageTokens * 2 : 0;
  return kv_block_elements(layout) * kv_element_bytes(layout) + scales;
}
// One page of one layer.
[[gnu::always_inline]] constexpr std::size_t kv_page_bytes(const KvLayout& layout) {
  return layout.num_kv_heads * kv_block_bytes(layout);
}
[[gnu::always_inline]] constexpr std::size_t kv_pool_bytes(const KvLayout& layout) {
  return layout.num_layers * layout.num_pages * kv_page_bytes(layout);
}

// Bytes from the start of the pool to the block of (layer, page, head): the one
// place that knows the order.
[[gnu::always_inline]] constexpr std::size_t kv_block_offset(const KvLayout& layout, std::size_t layer,
                                                             std::uint32_t page, std::size_t kv_head) {
  return (layer * layout.num_pages + page) * kv_page_bytes(layout) + kv_head * kv_block_bytes(layout);
}
// Bytes from the start of a block of 8 bits to the scale of a token's key or value.
[[gnu::always_inline]] constexpr std::size_t kv_key_scale(const KvLayout& layout, std::size_t token) {
  return kv_block_elements(layout) + 2 * token;
}
[[gnu::always_inline]] constexpr std::size_t kv_value_scale(const KvLayout& layout, std::size_t token) {
  return kv_block_elements(layout) + 2 * (kKvPageTokens + token);
}
// Elements from the start of a block to element d of a token's key or value.
[[gnu::always_inline]] constexpr std::size_t kv_key_element(const KvLayout& layout, std::size_t token,
                                                            std::size_t d) {
  return layout.type == DataType::kF32 ? d * kKvPageTokens + token
                                       : (d / 2 * kKvPageTokens + token) * 2 + d % 2;
}
[[gnu::always_inline]] constexpr std::size_t kv_value_element(const KvLayout& layout, std::size_t token,
                                                              std::size_t d) {
  return kKvPageTokens * layout.head_dim + token * padded_head_dim(layout.head_dim) + d;
}

}  // namespace troupe
