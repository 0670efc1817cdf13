// SPDX-License-Identifier: Apache-2.0
// c = a · weightᵀ (+ bias), summed in f32. On the CPU a row's bits do not depend on the
// batch (decision 0001); products through cuBLASLt do not promise that.
//
//   inputs {a [rows, K], weight [N, K]} or {a, weight, bias [1, N]}; outputs {c [rows, N]}
#pragma once

namespace troupe {

struct Matmul {};

}  // namespace troupe
