// SPDX-License-Identifier: Apache-2.0
// Starts a kernel. In the SIMT interpreter (tests/simt) the same call
// runs it on the CPU, so a launcher is tested together with its kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/cuda/runtime/kernel_attributes.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  // May start while the kernel before still runs (programmatic dependent launch,
  // sm_90 and later). It calls wait_for_previous_kernel() before it reads what
  // that one wrote, or writes at all.
  bool overlaps_previous = false;
};

// Throws CudaError.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, StreamHandle stream,
            const std::type_identity_t<Parameters>&... arguments) {
  prepare_kernel(reinterpret_cast<const void*>(kernel), shape.dynamic_shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.dynamic_shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps_previous ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// Until all kernels before are over and what they wrote can be seen; at once, if
// this one was not launched to overlap with them.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(TROUPE_SIMT) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
// The next kernel may start when every block has said so, or ended.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(TROUPE_SIMT) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename Integer>
constexpr Integer divide_up(Integer count, std::type_identity_t<Integer> size) {
  return (count + size - 1) / size;
}

}  // namespace troupe::cuda
