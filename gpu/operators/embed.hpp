// SPDX-License-Identifier: Apache-2.0
// x = scale * the embedding's row of each token, in f32; an id outside the vocabulary
// gives a row of zeros.
//
//   inputs {embedding [vocabulary, width]}, outputs {x [tokens, width]}
#pragma once

namespace troupe {

struct Embed {
  float scale = 1.0F;
};

}  // namespace troupe
