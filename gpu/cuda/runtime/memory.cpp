// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/memory.hpp"

#include <cuda_runtime.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

void register_memory(std::span<std::byte> memory) {
  const cudaError_t error =
      cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  throw CudaError(error, "the GPU can't be given " + std::to_string(memory.size()) +
                             " bytes of the host's memory (" + cudaGetErrorName(error) +
                             "): less of it for KV pages, or a higher limit of locked memory, may do");
}

// CUDA pins memory for the process and refuses to pin it twice, so this count is the
// process's too.
struct Registrations {
  std::mutex mutex;
  std::map<std::byte*, unsigned> counts;  // of owners, by where the memory begins

  static Registrations& instance() {
    static Registrations registrations;
    return registrations;
  }
  void add(std::span<std::byte> memory) {
    const std::lock_guard lock(mutex);
    const auto found = counts.find(memory.data());
    if (found == counts.end()) register_memory(memory);
    ++counts[memory.data()];
  }
  void remove(std::byte* memory) {
    const std::lock_guard lock(mutex);
    const auto found = counts.find(memory);
    if (--found->second > 0) return;
    counts.erase(found);
    (void)cudaHostUnregister(memory);
  }
};

}  // namespace

// Destructors don't look at errors: after a sticky one every call has it.

DeviceMemory::DeviceMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, size_bytes));
  memory_ = static_cast<std::byte*>(memory);
}
DeviceMemory::~DeviceMemory() {
  if (memory_ != nullptr) (void)cudaFree(memory_);
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

PinnedMemory::PinnedMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, 0, size_bytes);
}
PinnedMemory::~PinnedMemory() {
  if (memory_ != nullptr) (void)cudaFreeHost(memory_);
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

RegisteredMemory::RegisteredMemory(std::span<std::byte> memory) : memory_(memory) {
  if (memory.empty()) return;
  Registrations::instance().add(memory);
  void* on_device = nullptr;
  const cudaError_t error = cudaHostGetDevicePointer(&on_device, memory.data(), 0);
  if (error != cudaSuccess) {
    Registrations::instance().remove(memory.data());
    CUDA_CHECK(error);
  }
  on_device_ = static_cast<std::byte*>(on_device);
}
RegisteredMemory::~RegisteredMemory() {
  if (on_device_ != nullptr) Registrations::instance().remove(memory_.data());
}
RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, {})), on_device_(std::exchange(other.on_device_, nullptr)) {}
RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(on_device_, other.on_device_);
  return *this;
}

}  // namespace troupe::cuda
