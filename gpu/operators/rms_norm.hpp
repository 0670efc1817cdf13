// SPDX-License-Identifier: Apache-2.0
// normed = x / sqrt(mean(x²) + epsilon) * weight, a row at a time; with a residual,
// x += residual first, and x is written back. Sums are f32.
//
//   inputs {x [rows, width], weight [1, width]} or {x, weight, residual [rows, width]};
//   outputs {normed [rows, width]} or, with a residual, {normed, x}
#pragma once

namespace troupe {

struct RmsNorm {
  float epsilon = 1e-5F;
};

}  // namespace troupe
