// SPDX-License-Identifier: Apache-2.0
// Turns CUDA's return codes into exceptions that say where and what.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace troupe::cuda {

struct CudaError : std::runtime_error {
  CudaError(cudaError_t error_code, const std::string& text) : std::runtime_error(text), code(error_code) {}
  cudaError_t code;
};

// "launch.cuh:31: cudaLaunchKernelEx(...): cudaErrorInvalidValue (invalid argument)"
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line);

}  // namespace troupe::cuda

#define CUDA_CHECK(call)                                                             \
  do {                                                                               \
    const cudaError_t cuda_check_error = (call);                                     \
    if (cuda_check_error != cudaSuccess) {                                           \
      ::troupe::cuda::throw_cuda_error(cuda_check_error, #call, __FILE__, __LINE__); \
    }                                                                                \
  } while (false)
