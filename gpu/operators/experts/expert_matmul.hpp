// SPDX-License-Identifier: Apache-2.0
// Each expert's product over the rows that chose it (route_experts.hpp): c = a · weightᵀ (+ bias).
// A row's bits do not depend on how many rows its expert has.
//
//   inputs {a [choices, K], f32 or bf16; bounds; weight [experts * N, K], the experts' matrices
//           stacked, N a multiple of 32} or with a fourth, the bias [1, experts * N]
//   outputs {c [choices, N], f32}
#pragma once

namespace troupe {

struct ExpertMatmul {};

}  // namespace troupe
