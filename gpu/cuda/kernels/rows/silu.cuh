// SPDX-License-Identifier: Apache-2.0
// The one way to compute silu(v) = v / (1 + exp(-v)) on a GPU.
#pragma once

#include <cuda_runtime.h>

namespace troupe::cuda {

__device__ __forceinline__ float silu(float v) { return v / (1.0F + __expf(-v)); }

}  // namespace troupe::cuda
