// SPDX-License-Identifier: Apache-2.0
// x = scale * the row of each token + the waves of its position p, in f32: the first half of a
// row gets sin(p f), the second cos(p f), where f falls from 1 to about 1 / 10000. A position
// counts from the first token behind the slice's source_tokens, and that one has first_position.
// A token id outside the vocabulary gives a row of zeros.
//
//   inputs {words [vocabulary, width]}, outputs {x [tokens, width]}, of an even width
#pragma once

#include <cstdint>

namespace troupe {

struct EmbedSinusoids {
  float scale = 1.0F;
  std::uint32_t first_position = 0;
  bool ends_at_slowest = false;  // the last f is 1 / 10000, else the one that would come next
};

}  // namespace troupe
