// SPDX-License-Identifier: Apache-2.0
// Nodes of Tree-LSTMs (Tai, Socher, Manning 2015) behind their products. c_k is that of
// the node's input row k; h and the new c go to the node's row, h to the output, too.
//
//   leaf:      c = a;  h = sigmoid(o) tanh(c)
//              inputs {gates [tokens, 2 width]: a, o}
//   binary:    c = sigmoid(i) tanh(u) + sigmoid(l) c_0 + sigmoid(r) c_1;  h = sigmoid(o) tanh(c)
//              inputs {gates [tokens, 5 width]: i, l, r, o, u}
//   child sum: c = sigmoid(i) tanh(u) + sum over k of sigmoid(f + forget_k) c_k, in order
//              inputs {state_gates [tokens, 3 width]: i, o, u; input_gates [tokens, 4 width]:
//              i, o, u, f, or a vector [4 width] for all nodes}; i, o and u are sums of both;
//              forget_k is floats [forget_offset, forget_offset + width) of input row k
//
//   all f32; outputs {h [tokens, width]}, f32
#pragma once

#include <cstdint>

namespace troupe {

struct TreeLstmLeaf {
  std::uint32_t h_offset = 0, c_offset = 0;  // floats of a row
};
struct TreeLstmBinary {
  std::uint32_t h_offset = 0, c_offset = 0;
};
struct TreeLstmChildSum {
  std::uint32_t h_offset = 0, c_offset = 0, forget_offset = 0;
};

}  // namespace troupe
