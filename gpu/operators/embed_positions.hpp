// SPDX-License-Identifier: Apache-2.0
// x = words[token id] + types[type] + positions[first_position + position], added in this
// order, in f32. An encoder's token has the position of its index in its slice, and the
// type 0, or 1 from the slice's second_text on (0 where there is one type only). A token id
// outside the vocabulary gives a word of zeros, a type beyond the table its last row.
//
//   inputs {words [vocabulary, width], positions [positions, width]} and perhaps {types
//   [types, width]}; outputs {x [tokens, width]}
#pragma once

#include <cstdint>

namespace troupe {

struct EmbedPositions {
  std::uint32_t first_position = 0;  // the row of position 0
};

}  // namespace troupe
