// SPDX-License-Identifier: Apache-2.0
// Rows of weights as blocks of a file, with the values that --quantize gives them at load.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/block_format.hpp"

namespace troupe {

// format: kQ8_0 or kQ4_0; values: whole blocks of 32; bytes: as a GGUF file has those blocks. The same on
// every processor; any thread. Throws std::range_error: a value is too large for an f16 scale.
void quantize_row(BlockFormat format, std::span<const float> values, std::span<std::byte> bytes);

}  // namespace troupe
