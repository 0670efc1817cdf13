// SPDX-License-Identifier: Apache-2.0
// CUDA's functions about the device.
#include <cstdio>

#include "tests/simt/runtime/runtime_state.hpp"

using troupe::simt::call;
using troupe::simt::RuntimeState;

namespace {

constexpr int kVersion = CUDART_VERSION;
constexpr int kClockKilohertz = 1'000'000;
constexpr int kMemoryClockKilohertz = 1'000'000;

// A small device that obeys an H100's limits.
cudaDeviceProp properties_of(RuntimeState& state) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof(p.name), "SIMT interpreter");
  p.totalGlobalMem = state.memory().budget();
  p.sharedMemPerBlock = 48 * 1024;
  p.sharedMemPerBlockOptin = 227 * 1024;
  p.sharedMemPerMultiprocessor = 228 * 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = state.num_multiprocessors();
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 512;
  p.l2CacheSize = 4 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.streamPrioritiesSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.hostRegisterSupported = 1;
  return p;
}

cudaError_t attribute_of(const cudaDeviceProp& p, cudaDeviceAttr attribute, int* value) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrClockRate: *value = kClockKilohertz; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrIntegrated: *value = p.integrated; break;
    case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
    case cudaDevAttrConcurrentKernels: *value = p.concurrentKernels; break;
    case cudaDevAttrMemoryClockRate: *value = kMemoryClockKilohertz; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrCanUseHostPointerForRegisteredMem: *value = p.canUseHostPointerForRegisteredMem; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrHostRegisterSupported: *value = p.hostRegisterSupported; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

bool exists(const RuntimeState& state, int device) { return device >= 0 && device < state.num_gpus(); }

template <typename T>
cudaError_t give(T* to, T value) {
  return call([&](RuntimeState&) {
    if (to == nullptr) return cudaErrorInvalidValue;
    *to = value;
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) { return give(count, RuntimeState::instance().num_gpus()); }

cudaError_t cudaGetDevice(int* device) { return give(device, troupe::simt::current_gpu()); }

cudaError_t cudaDriverGetVersion(int* version) { return give(version, kVersion); }

cudaError_t cudaRuntimeGetVersion(int* version) { return give(version, kVersion); }

cudaError_t cudaSetDevice(int device) {
  return call([&](RuntimeState& state) {
    if (!exists(state, device)) return cudaErrorInvalidDevice;
    troupe::simt::set_current_gpu(device);
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned) {
  return call([](RuntimeState&) { return cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&](RuntimeState& state) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!exists(state, device)) return cudaErrorInvalidDevice;
    *properties = properties_of(state);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&](RuntimeState& state) {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!exists(state, device)) return cudaErrorInvalidDevice;
    return attribute_of(properties_of(state), attribute, value);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  constexpr int kGreatest = -5;
  return call([&](RuntimeState&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatest;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([](RuntimeState& state) { return state.wait_for_device(); });
}
