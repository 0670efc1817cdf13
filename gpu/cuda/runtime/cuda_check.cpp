// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/cuda_check.hpp"

#include <string_view>

namespace troupe::cuda {
namespace {

// A library has machine code for some architectures only (cmake/cuda.cmake).
std::string_view advice_on(cudaError_t error) {
  const bool has_no_code =
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
  return has_no_code ? "; if the CUDA library was built for another GPU: scripts/build all-gpus gpu_backend"
                     : "";
}

}  // namespace

void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  const std::string_view path = file;
  const auto slash = path.rfind('/');
  std::string text(path.substr(slash == std::string_view::npos ? 0 : slash + 1));
  text += ":" + std::to_string(line) + ": " + call + ": " + cudaGetErrorName(error) + " (" +
          cudaGetErrorString(error) + ")";
  text += advice_on(error);
  throw CudaError(error, text);
}

}  // namespace troupe::cuda
