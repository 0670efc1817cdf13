// SPDX-License-Identifier: Apache-2.0
// A matrix in E4M3 (a sign, four bits of exponent, three of mantissa; no infinity) times scales, as
// DeepSeek's and Qwen's FP8 models have it. No blocks of ours hold it exactly, so it is opened.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/model/quantized/packed_tensor.hpp"

namespace troupe {

// Rows and columns that share a scale. 0: not said.
struct Fp8BlockSize {
  std::uint32_t rows = 0, columns = 0;
};

// codes: [rows, columns]. scales: one number, one a row ([rows] or [rows, 1]), or one a block of `size`,
// whose last ones may be cut. Throws std::runtime_error saying what does not fit.
std::shared_ptr<const PackedTensor> make_fp8_tensor(RawTensor codes, RawTensor scales, Fp8BlockSize size);

// NaN for 0x7F and 0xFF.
float f32_from_e4m3(std::uint8_t code);

}  // namespace troupe
