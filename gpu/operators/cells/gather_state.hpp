// SPDX-License-Identifier: Apache-2.0
// The states that a node reads: floats [offset, offset + width) of its input rows, side by
// side or as their sum, added in their order. An input that a node lacks is zeros.
//
//   inputs none; outputs {states [tokens, num_inputs * width]}, f32; [tokens, width] of a sum,
//   which is over all inputs that a node has
#pragma once

#include <cstdint>

namespace troupe {

struct GatherState {
  std::uint32_t offset = 0;
  std::uint32_t width = 0;
  std::uint32_t first_input = 0;  // of a node; side by side only
  std::uint32_t num_inputs = 1;   // side by side only
  bool sums = false;
};

}  // namespace troupe
