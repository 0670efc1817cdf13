// SPDX-License-Identifier: Apache-2.0
// How weights are stored, in files and in packed matrices: plain, or as whole
// numbers of some bits with a scale for 16 or 32 of them and perhaps a minimum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/data_type.hpp"

namespace troupe {

// The numbers are those of ggml's files.
enum class BlockFormat : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIq4Nl = 20,
  kBF16 = 30,
  kMxfp4 = 39,
};

constexpr BlockFormat format_of(DataType type) {
  return type == DataType::kBF16  ? BlockFormat::kBF16
         : type == DataType::kF16 ? BlockFormat::kF16
                                  : BlockFormat::kF32;
}

constexpr bool is_quantized(BlockFormat format) {
  return format != BlockFormat::kF32 && format != BlockFormat::kF16 && format != BlockFormat::kBF16;
}

// Weights of one output along K in a block, and blocks in a super-block of K-quants.
inline constexpr std::size_t kBlockInputs = 32;
inline constexpr std::size_t kSuperBlocks = 8;

// 32 weights as they are stored:
//
//   Q8_0, Q4_0, Q5_0   scale x number
//   IQ4_NL, MXFP4      scale x table[number]
//   Q4_1, Q5_1         scale x number + minimum
//   Q4_K, Q5_K         scale x factors[0] x number - minimum x factors[1]
//   Q6_K               scale x factor of the number's half x number
struct QuantizedBlock {
  std::uint16_t scale = 0;                 // f16; of MXFP4 bf16
  std::uint16_t minimum = 0;               // f16
  std::uint8_t factors[2] = {};            // of Q6_K signed
  std::int8_t numbers[kBlockInputs] = {};  // of Q8_0, Q4_0, Q5_0 and Q6_K signed
};

// Whole numbers that the 16 codes of IQ4_NL stand for, and twice those of MXFP4's
// E2M1, whose scale is halved in turn.
inline constexpr std::int8_t kIq4NlNumbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace troupe
