// SPDX-License-Identifier: Apache-2.0
// Keeps the rows that are sampled: rows[i] = x[token of output row i] (+ residual of it).
//
//   inputs {x [tokens, width]} or {x, residual [tokens, width]}; outputs {rows [output
//   rows, width]}, f32, or on CPU cores without a residual of any type and of whole floats
#pragma once

namespace troupe {

struct GatherRows {};

}  // namespace troupe
