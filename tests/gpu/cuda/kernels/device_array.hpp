// SPDX-License-Identifier: Apache-2.0
// Memory of a kernel under test. The tests of kernels are built twice: with the
// interpreter, where this is the CPU's memory, exactly as long as asked for, so
// that the address sanitizer finds every step outside of it; and with CUDA's
// toolkit, where it is a GPU's (test_cuda_kernels_on_gpu).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#ifdef TROUPE_SIMT
#include "tests/simt/interpreter/launch.hpp"
#else
#include "gpu/cuda/runtime/cuda_check.hpp"
#endif

namespace troupe {

#ifdef TROUPE_SIMT

// `offset` elements in front make it unaligned.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, std::size_t offset = 0)
      : memory_(offset + values.size()), offset_(offset) {
    std::copy(values.begin(), values.end(), memory_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  T* data() { return memory_.data() + offset_; }
  std::vector<T> values() const {
    return {memory_.begin() + static_cast<std::ptrdiff_t>(offset_), memory_.end()};
  }

 private:
  std::vector<T> memory_;
  std::size_t offset_;
};

using simt::in_several_orders;

#else

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, std::size_t offset = 0)
      : size_(values.size()), offset_(offset) {
    CUDA_CHECK(cudaMalloc(&memory_, (offset + size_ + 1) * sizeof(T)));
    CUDA_CHECK(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() { return memory_ + offset_; }
  std::vector<T> values() const {  // waits for the kernels before it
    std::vector<T> result(size_);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(result.data(), memory_ + offset_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* memory_ = nullptr;
  std::size_t size_;
  std::size_t offset_;
};

template <typename Body>
void in_several_orders(Body body) {
  body();
}

#endif

}  // namespace troupe
