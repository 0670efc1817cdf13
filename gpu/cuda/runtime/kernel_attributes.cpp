// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/kernel_attributes.hpp"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kWithoutAsking = 48 * 1024;

// What the driver was told, which keeps it for as long as the process lives.
struct Told {
  std::mutex mutex;
  std::map<std::pair<int, const void*>, std::size_t> dynamic_shared_bytes;  // by device and kernel
};
Told& told() {
  static Told told;
  return told;
}

}  // namespace

void prepare_kernel(const void* kernel, std::size_t dynamic_shared_bytes) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  Told& known = told();
  const std::lock_guard lock(known.mutex);
  const auto found = known.dynamic_shared_bytes.find({device, kernel});
  if (found == known.dynamic_shared_bytes.end()) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
  } else if (dynamic_shared_bytes <= found->second) {
    return;
  }
  if (dynamic_shared_bytes > kWithoutAsking) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(dynamic_shared_bytes)));
  }
  known.dynamic_shared_bytes[{device, kernel}] = dynamic_shared_bytes;
}

}  // namespace troupe::cuda
