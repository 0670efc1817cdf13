// SPDX-License-Identifier: Apache-2.0
// Weights in blocks as a packed matrix has them. A panel is one block of 32 inputs
// after the other along K, each of the panel's 32 outputs:
//
//   scales   f16[32], one an output; MXFP4: bf16; Q4_1, Q5_1: then f16[32] minimums;
//            Q4_K, Q5_K: uint8[2][32] factors of scale and minimum; Q6_K: int8[2][32]
//   numbers  8 bits: int8[32][32], [k][output]
//            fewer: bits above the fourth, then four groups of 8 k's, one 4-byte lane
//            an output: bits 4t of a lane are k = 2t of the group, bits 16 + 4t are
//            k = 2t + 1. Two's complement where numbers are signed, else codes.
//   above    4-byte lanes again: with h bits a number, k = 2i has bits (h i) % 16 on of
//            lane h i / 16, k = 2i + 1 those 16 further up
//
// A K-quant has super-blocks of 8 blocks behind f16[32] scales and, Q4_K and Q5_K,
// f16[32] minimums.
// N is padded with zeros; K, too, where blocks are made here (Q8_0, Q4_0).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/block_format.hpp"

namespace troupe {

inline constexpr std::size_t kBlockOutputs = 32;
inline constexpr std::size_t kBlockLanesBytes = 4 * kBlockOutputs;  // a lane an output

struct PanelBlocks {
  std::size_t bits = 0;  // of a number
  bool is_signed = false;
  bool has_minimum = false;
  std::size_t scales = 1;       // of a block of an output
  std::size_t scale_bytes = 0;  // in front of a block's numbers, of all outputs
  std::size_t head_bytes = 0;   // of a super-block; 0: there are none

  constexpr std::size_t high_bytes() const { return bits == 8 ? 0 : (bits - 4) * kBlockLanesBytes; }
  constexpr std::size_t number_bytes() const { return bits * kBlockLanesBytes; }
  constexpr std::size_t block_bytes() const { return scale_bytes + number_bytes(); }
  // A super-block is the blocks behind a head, or one block.
  constexpr std::size_t super_blocks() const { return head_bytes == 0 ? 1 : kSuperBlocks; }
  constexpr std::size_t super_bytes() const { return head_bytes + super_blocks() * block_bytes(); }
};

// The format is a quantized one.
constexpr PanelBlocks panel_blocks(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ8_0: return {.bits = 8, .is_signed = true, .scale_bytes = 64};
    case BlockFormat::kQ4_0: return {.bits = 4, .is_signed = true, .scale_bytes = 64};
    case BlockFormat::kQ5_0: return {.bits = 5, .is_signed = true, .scale_bytes = 64};
    case BlockFormat::kIq4Nl:
    case BlockFormat::kMxfp4: return {.bits = 4, .scale_bytes = 64};
    case BlockFormat::kQ4_1: return {.bits = 4, .has_minimum = true, .scale_bytes = 128};
    case BlockFormat::kQ5_1: return {.bits = 5, .has_minimum = true, .scale_bytes = 128};
    case BlockFormat::kQ4_K: return {.bits = 4, .has_minimum = true, .scale_bytes = 64, .head_bytes = 128};
    case BlockFormat::kQ5_K: return {.bits = 5, .has_minimum = true, .scale_bytes = 64, .head_bytes = 128};
    case BlockFormat::kQ6_K:
      return {.bits = 6, .is_signed = true, .scales = 2, .scale_bytes = 64, .head_bytes = 64};
    case BlockFormat::kF32:
    case BlockFormat::kF16:
    case BlockFormat::kBF16: break;
  }
  return {};
}

}  // namespace troupe
