// SPDX-License-Identifier: Apache-2.0
// Bins of lengths that grow with them: a guess at 1,000 tokens may be as many times off as one at
// ten. 1, 2, 3, 4, 6, 8, 12, 16, 23 … tokens begin one each, from 4 on two to a doubling.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

inline constexpr std::size_t kNumLengthBins = 32;  // the last one: 65,536 and more

std::uint32_t first_length(std::size_t bin);  // bin <= kNumLengthBins
std::size_t length_bin(std::uint32_t num_tokens);

}  // namespace troupe
