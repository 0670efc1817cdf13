// SPDX-License-Identifier: Apache-2.0
// The kernels for one instruction set; its flags are in CMakeLists.txt.
#include "gpu/cpu/kernels/vector/all_kernels.hpp"

namespace troupe {

const KernelTable kAvx512Bf16Kernels = kAllKernels;

}  // namespace troupe
