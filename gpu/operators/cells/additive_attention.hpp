// SPDX-License-Identifier: Apache-2.0
// Additive attention of a node to the states of others (Bahdanau, Cho, Bengio 2015): to all of
// its input rows but the first, of which each has a key and a value.
//
//   score_k = sum over i of weight_i tanh(query_i + key_k,i)
//   context = sum over k of softmax(score)_k value_k; zeros without such inputs
//
//   inputs {query [tokens, width], x [tokens, x_width], weight, a vector [width]}; outputs {x and
//   behind it context [tokens, x_width + width]}; f32
#pragma once

#include <cstdint>

namespace troupe {

struct AdditiveAttention {
  std::uint32_t key_offset = 0, value_offset = 0;  // floats of a row
};

}  // namespace troupe
