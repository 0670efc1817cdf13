// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_device.hpp"

#include <cuda_runtime.h>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {

GemmDevice gemm_device(int device, std::size_t workspace_bytes) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return {.name = properties.name,
          .compute_capability = properties.major * 10 + properties.minor,
          .num_multiprocessors = properties.multiProcessorCount,
          .cublas_version = CublasGemms::version(),
          .workspace_bytes = workspace_bytes};
}

}  // namespace troupe::cuda
