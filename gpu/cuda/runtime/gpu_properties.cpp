// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/gpu_properties.hpp"

#include <cuda_runtime.h>

#include <stdexcept>

#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/memory_plan.hpp"

namespace troupe::cuda {
namespace {

constexpr int kLowestCapability = 80;  // what kernels are compiled for, and upwards

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

int count_gpus(int driver_version, int runtime_version) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (driver_version == 0) throw std::runtime_error("no NVIDIA driver on this machine");
  if (error == cudaErrorInsufficientDriver)
    throw std::runtime_error("the NVIDIA driver is for CUDA " + version(driver_version) +
                             ", this program needs " + version(runtime_version));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    throw std::runtime_error("no NVIDIA GPU on this machine");
  CUDA_CHECK(error);
  return count;
}

// Two transfers a clock, as all memories of today's GPUs.
std::uint64_t memory_rate(int ordinal) {
  int kilohertz = 0, bus_bits = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, ordinal));
  CUDA_CHECK(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, ordinal));
  return 2 * std::uint64_t{1000} * static_cast<std::uint64_t>(kilohertz) *
         static_cast<std::uint64_t>(bus_bits) / 8;
}

}  // namespace

GpuProperties use_gpu(int ordinal) {
  GpuProperties gpu{.ordinal = ordinal};
  CUDA_CHECK(cudaRuntimeGetVersion(&gpu.runtime_version));
  (void)cudaDriverGetVersion(&gpu.driver_version);  // without a driver: 0
  gpu.num_gpus = count_gpus(gpu.driver_version, gpu.runtime_version);
  if (ordinal < 0 || ordinal >= gpu.num_gpus)
    throw std::runtime_error("no GPU " + std::to_string(ordinal) + ": this machine has " +
                             std::to_string(gpu.num_gpus));
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  gpu.name = properties.name;
  gpu.compute_capability = 10 * properties.major + properties.minor;
  gpu.num_multiprocessors = properties.multiProcessorCount;
  if (gpu.compute_capability < kLowestCapability)
    throw std::runtime_error(gpu.name + " has compute capability " + std::to_string(properties.major) + "." +
                             std::to_string(properties.minor) + ", needed is 8.0");
  gpu.bytes_per_second = memory_rate(ordinal);
  CUDA_CHECK(cudaSetDevice(ordinal));
  CUDA_CHECK(cudaFree(nullptr));  // makes the context
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  gpu.free_bytes = free_bytes;
  gpu.total_bytes = total_bytes;
  return gpu;
}

std::string to_string(const GpuProperties& gpu) {
  return "cuda:" + std::to_string(gpu.ordinal) + ", " + gpu.name + " (sm_" +
         std::to_string(gpu.compute_capability) + ", " + shown_bytes(gpu.total_bytes) + ", driver " +
         version(gpu.driver_version) + ")";
}

}  // namespace troupe::cuda
