// SPDX-License-Identifier: Apache-2.0
// normed = (x - mean) / sqrt(variance + epsilon) * weight + bias, a row at a time; with a
// residual, of x + residual. The variance is the population's, taken around the mean: a
// mean that is large beside the deviation costs no digits.
//
//   inputs {x [rows, width], weight [1, width], bias [1, width]} or {x, weight, bias,
//   residual [rows, width]}, f32; outputs {normed}, f32, which may be x or residual, or
//   {normed, a}: a is normed once more, in a's type
#pragma once

namespace troupe {

struct LayerNorm {
  float epsilon = 1e-12F;
};

}  // namespace troupe
