// SPDX-License-Identifier: Apache-2.0
// Each slice's row to the batch's result.
//
//   inputs {rows [slices, width]}, f32
#pragma once

namespace troupe {

struct WriteVectors {};

}  // namespace troupe
