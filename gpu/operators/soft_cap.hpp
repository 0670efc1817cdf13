// SPDX-License-Identifier: Apache-2.0
// x = cap * tanh(x / cap), in place: what is small stays, nothing exceeds the cap.
//
//   inputs {x [rows, width]}, f32
#pragma once

namespace troupe {

struct SoftCap {
  float cap = 1.0F;  // > 0
};

}  // namespace troupe
