// SPDX-License-Identifier: Apache-2.0
// Products of rows in 8 bits for AVX2 with AVX-VNNI, all that this set computes otherwise than AVX2; its
// flags are in CMakeLists.txt.
#include "gpu/cpu/kernels/vector/q8_matmul.hpp"

namespace troupe {

void multiply_on_avx2_vnni(const MatmulBlock& block) {
  if (block.q8_rows.numbers == nullptr) return kAvx2Kernels.multiply(block);
  switch (block.format) {
    case BlockFormat::kQ8_0: return multiply_q8_rows<BlockFormat::kQ8_0>(block);
    case BlockFormat::kQ4_0: return multiply_q8_rows<BlockFormat::kQ4_0>(block);
    case BlockFormat::kQ4_1: return multiply_q8_rows<BlockFormat::kQ4_1>(block);
    case BlockFormat::kQ5_0: return multiply_q8_rows<BlockFormat::kQ5_0>(block);
    case BlockFormat::kQ5_1: return multiply_q8_rows<BlockFormat::kQ5_1>(block);
    case BlockFormat::kQ4_K: return multiply_q8_rows<BlockFormat::kQ4_K>(block);
    case BlockFormat::kQ5_K: return multiply_q8_rows<BlockFormat::kQ5_K>(block);
    case BlockFormat::kQ6_K: return multiply_q8_rows<BlockFormat::kQ6_K>(block);
    case BlockFormat::kIq4Nl: return multiply_q8_rows<BlockFormat::kIq4Nl>(block);
    case BlockFormat::kMxfp4: return multiply_q8_rows<BlockFormat::kMxfp4>(block);
    case BlockFormat::kF32:
    case BlockFormat::kF16:
    case BlockFormat::kBF16: return kAvx2Kernels.multiply(block);
  }
}

}  // namespace troupe
