// SPDX-License-Identifier: Apache-2.0
// x += y, element by element.
//
//   inputs {x [rows, width], y [rows, width]}, f32; outputs {x}
#pragma once

namespace troupe {

struct Add {};

}  // namespace troupe
