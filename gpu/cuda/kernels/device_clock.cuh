// SPDX-License-Identifier: Apache-2.0
// The clock that all multiprocessors of a GPU share.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#ifdef TROUPE_SIMT
#include <chrono>
#endif

namespace troupe::cuda {

// Nanoseconds, of no known beginning. Some GPUs move it on once a microsecond.
__device__ __forceinline__ std::uint64_t device_time() {
#ifdef TROUPE_SIMT
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
#else
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
#endif
}

}  // namespace troupe::cuda
