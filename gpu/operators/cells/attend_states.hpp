// SPDX-License-Identifier: Apache-2.0
// Attention of a node to the states of others: to all of its input rows but the first, of
// which each has a key and a value. The scores are products of query and key (Luong's dot;
// his general score with a query that was multiplied before).
//
//   context = sum over k of softmax(query · key_k) value_k; zeros without such inputs
//
//   inputs {query [tokens, width], h [tokens, width]}; outputs {context and behind it h
//   [tokens, 2 width]}; f32
#pragma once

#include <cstdint>

namespace troupe {

struct AttendStates {
  std::uint32_t key_offset = 0, value_offset = 0;  // floats of a row
};

}  // namespace troupe
