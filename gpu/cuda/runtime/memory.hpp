// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, and host memory that it reads and writes itself. Owners; the
// device that was current when they were made is the one they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws CudaError. The contents are undefined at first.
  explicit DeviceMemory(std::size_t size_bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  std::byte* get() const { return memory_; }  // aligned to 256 bytes
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Pinned and mapped: the GPU sees it at the same address.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::size_t size_bytes);  // throws CudaError; zeros
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::byte* get() const { return memory_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Memory of another owner, pinned and mapped as long as this lives, for the
// current device. Several devices of a process may share one piece of memory.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  explicit RegisteredMemory(std::span<std::byte> memory);  // throws CudaError
  ~RegisteredMemory();
  RegisteredMemory(RegisteredMemory&& other) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;

  std::byte* on_device() const { return on_device_; }  // where kernels find it

 private:
  std::span<std::byte> memory_;
  std::byte* on_device_ = nullptr;
};

}  // namespace troupe::cuda
