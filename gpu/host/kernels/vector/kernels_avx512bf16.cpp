// SPDX-License-Identifier: Apache-2.0
// The kernels for one instruction set; its flags are in CMakeLists.txt.
#include "gpu/host/kernels/vector/attention_block.hpp"
#include "gpu/host/kernels/vector/matmul_block.hpp"
#include "gpu/host/kernels/vector/row_kernels.hpp"

namespace troupe {

extern const KernelTable kAvx512Bf16Kernels;
const KernelTable kAvx512Bf16Kernels = {
    .to_f32 = to_f32,
    .to_bf16 = to_bf16,
    .multiply = multiply,
    .attend = attend,
    .rotate_and_append = rotate_and_append,
    .normalize = normalize,
    .activate = activate,
    .add = add,
    .summarize = summarize,
    .exponentiate = exponentiate,
};

}  // namespace troupe
