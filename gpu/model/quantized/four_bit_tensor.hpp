// SPDX-License-Identifier: Apache-2.0
// A matrix of 4 bits a weight as GPTQ and AWQ store it: scale x (code - zero point), both for a group of
// inputs of one output. Where groups follow the inputs, blocks of 32 hold every value exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "gpu/model/quantized/packed_tensor.hpp"

namespace troupe {

// Words of 32 bits have 8 codes.
enum class FourBitPacking : std::uint8_t {
  kGptq,  // qweight [columns / 8, rows]: inputs that follow each other; the first in the lowest bits
  kAwq,   // qweight [columns, rows / 8]: outputs, in the order 0 2 4 6 1 3 5 7
};

struct FourBitParts {
  FourBitPacking packing = FourBitPacking::kGptq;
  std::uint32_t group_size = 0;          // inputs; 0: all of them
  std::uint32_t added_zero = 0;          // zero points are those of the file plus this
  RawTensor codes;                       // "qweight", I32
  RawTensor zeros;                       // "qzeros", I32 [groups, rows / 8], packed along rows
  RawTensor scales;                      // [groups, rows]
  std::optional<RawTensor> groups = {};  // "g_idx", I32 [columns]: the group of each input; none: in order

  std::uint64_t num_rows() const;
  std::uint64_t num_columns() const;
};

// Kept as Q4_0 where all zero points are 8, else as Q5_0, whose whole numbers reach from -16 to 15: if scales
// are F16, groups are in order and of a multiple of 32 inputs. Throws std::runtime_error saying what does not
// fit.
std::shared_ptr<const PackedTensor> make_four_bit_tensor(FourBitParts parts);

}  // namespace troupe
