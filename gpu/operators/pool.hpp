// SPDX-License-Identifier: Apache-2.0
// One vector a slice: the mean of its rows, the largest value of each column, its first
// row or its last; and, if wanted, divided by its length (at least 1e-12). Rows of padding
// (SequenceSlice::num_padding) do not count.
//
//   inputs {x [tokens, width]}, f32; outputs {pooled [slices, width]}, f32, or none: to the
//   batch's result
#pragma once

#include "gpu/operators/pooling_mode.hpp"

namespace troupe {

struct Pool {
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;  // to length 1
};

}  // namespace troupe
