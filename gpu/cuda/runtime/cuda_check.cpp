// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/cuda_check.hpp"

#include <string_view>

namespace troupe::cuda {

void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  const std::string_view path = file;
  const auto slash = path.rfind('/');
  std::string text(path.substr(slash == std::string_view::npos ? 0 : slash + 1));
  text += ":" + std::to_string(line) + ": " + call + ": " + cudaGetErrorName(error) + " (" +
          cudaGetErrorString(error) + ")";
  throw CudaError(error, text);
}

}  // namespace troupe::cuda
