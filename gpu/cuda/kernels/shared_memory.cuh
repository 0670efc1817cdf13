// SPDX-License-Identifier: Apache-2.0
// A block's dynamic shared memory: as long as the launch asked for, at a
// multiple of 16 bytes, uninitialised.
#pragma once

#include <cuda_runtime.h>

namespace troupe::cuda {

template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef TROUPE_SIMT
  return reinterpret_cast<T*>(simt::running_block().dynamic_shared());
#else
  extern __shared__ uint4 troupe_dynamic_shared[];
  return reinterpret_cast<T*>(troupe_dynamic_shared);
#endif
}

}  // namespace troupe::cuda
