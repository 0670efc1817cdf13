// SPDX-License-Identifier: Apache-2.0
// One step of an LSTM, behind its two products, whose rows are PyTorch's: i, f, g, o.
//
//   gates = input_gates + state_gates, c that of the node's first input row, zeros without one
//   c' = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c')
//
//   inputs {input_gates [tokens, 4 width], state_gates [tokens, 4 width]}, f32;
//   outputs {h [tokens, width]}, f32. h and c' go to the node's row as well.
#pragma once

#include <cstdint>

namespace troupe {

struct LstmCell {
  std::uint32_t h_offset = 0, c_offset = 0;  // floats of a row
};

}  // namespace troupe
