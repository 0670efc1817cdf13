// SPDX-License-Identifier: Apache-2.0
// One step of a GRU, behind its two products, whose rows are PyTorch's: r, z, n.
//
//   x the input's gates, s the state's, h that of the node's first input row, zeros without one
//   n = tanh(x_n + sigmoid(x_r + s_r) s_n);  z = sigmoid(x_z + s_z);  h' = (1 - z) n + z h
//
//   inputs {input_gates [tokens, 3 width], state_gates [tokens, 3 width]}, f32;
//   outputs {h' [tokens, width]}, f32. h' goes to the node's row as well.
#pragma once

#include <cstdint>

namespace troupe {

struct GruCell {
  std::uint32_t h_offset = 0;  // floats of a row
};

}  // namespace troupe
