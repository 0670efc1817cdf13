// SPDX-License-Identifier: Apache-2.0
// Weights in blocks: 32 weights of one output along K and the scale they share.
// A panel of a quantized matrix is one block after the other along K, each of
// the panel's 32 outputs:
//
//   scales  f16[32], one an output
//   kQ8     int8[32][32], [k][output]
//   kQ4     four groups of 8 k's, one 4-byte lane an output: bits 4t of a lane are
//           k = 2t of the group, bits 16 + 4t are k = 2t + 1, two's complement
//
// N is padded with scales of 0, K with weights of 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/data_type.hpp"

namespace troupe {

inline constexpr std::size_t kBlockInputs = 32;
inline constexpr std::size_t kBlockScaleBytes = 64;
inline constexpr std::size_t kQ8BlockBytes = kBlockScaleBytes + 1024;  // of a panel's 32 outputs
inline constexpr std::size_t kQ4BlockBytes = kBlockScaleBytes + 512;

// One output's block, before it is in a panel.
struct QuantizedBlock {
  std::uint16_t scale = 0;                 // f16
  std::int8_t weights[kBlockInputs] = {};  // times scale
};

}  // namespace troupe
