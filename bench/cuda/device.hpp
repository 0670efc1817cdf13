// SPDX-License-Identifier: Apache-2.0
// What the benchmarks of a GPU share: memory with random contents, time measured
// on the device, and the limits that everything is compared with.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/cuda_check.hpp"

namespace troupe::cuda {

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;

// bf16 numbers from -1 to 1: products of zeros would take less power, and time.
DeviceMemory random_bf16(std::size_t size_bytes);
DeviceMemory uninitialised(std::size_t size_bytes);

template <typename T>
DeviceMemory copy_of(const std::vector<T>& values) {
  DeviceMemory memory = uninitialised(values.size() * sizeof(T));
  CUDA_CHECK(
      cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}

// Seconds of one run: the median of several trains of runs, each between two
// events. run(i) starts the i-th run on stream 0; what it reads should change
// with i until it is more than the caches hold.
double seconds_of(const std::function<void(std::size_t i)>& run);

struct Limits {
  double bytes_per_second = 0.0;  // copy within the device, bytes read and written
  double flops_per_second = 0.0;  // bf16, cuBLASLt, 8192 x 8192 x 8192
};
Limits measure_limits();

}  // namespace troupe::cuda
