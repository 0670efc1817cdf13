// SPDX-License-Identifier: Apache-2.0
// Shared memory as kernels want it. All of them want the largest part of a multiprocessor's
// memory as shared memory: between two kernels that want different parts it would have to be
// empty, so that the second could not begin while the first one ends.
#pragma once

#include <cstddef>

namespace troupe::cuda {

// Before a launch, on the current device. Blocks that need more than 48 KiB of dynamic shared
// memory ask for it, as CUDA demands. The driver is called only for what it does not know yet.
// Any thread. Throws CudaError.
void prepare_kernel(const void* kernel, std::size_t dynamic_shared_bytes);

}  // namespace troupe::cuda
