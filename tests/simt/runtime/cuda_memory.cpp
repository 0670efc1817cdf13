// SPDX-License-Identifier: Apache-2.0
// CUDA's functions about memory.
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simt/runtime/refusals.hpp"
#include "tests/simt/runtime/runtime_state.hpp"

using troupe::simt::call;
using troupe::simt::call_always;
using troupe::simt::MemoryKind;
using troupe::simt::RuntimeState;

// ---- allocations ----

namespace {

cudaError_t allocate(MemoryKind kind, void** pointer, size_t size_bytes) {
  return call([&](RuntimeState& state) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = state.check_unsafe_call(); error != cudaSuccess) return error;
    *pointer = nullptr;
    if (size_bytes == 0) return cudaSuccess;
    *pointer = state.memory().allocate(kind, size_bytes, troupe::simt::current_gpu());
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Waits, so that no operation uses the memory any more. A broken device has none.
template <typename Release>
cudaError_t release(Release release_memory, cudaError_t not_found) {
  return call_always([&](RuntimeState& state) {
    if (const cudaError_t error = state.check_unsafe_call(); error != cudaSuccess) return error;
    if (const cudaError_t error = state.wait_for_work(); error != cudaSuccess) {
      release_memory(state);
      return error;
    }
    return release_memory(state) ? cudaSuccess : not_found;
  });
}

}  // namespace

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](RuntimeState& state) {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *free = state.memory().free_bytes(troupe::simt::current_gpu());
    *total = state.memory().budget();
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  return allocate(MemoryKind::kDevice, pointer, size_bytes);
}

cudaError_t cudaMallocHost(void** pointer, size_t size_bytes, unsigned) {
  return allocate(MemoryKind::kPinned, pointer, size_bytes);
}

cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned) {
  return allocate(MemoryKind::kPinned, pointer, size_bytes);
}

cudaError_t cudaFree(void* pointer) {
  const auto free_memory = [&](RuntimeState& state) {
    return pointer == nullptr || state.memory().release(MemoryKind::kDevice, pointer);
  };
  return release(free_memory, cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void* pointer) {
  const auto free_memory = [&](RuntimeState& state) {
    return pointer == nullptr || state.memory().release(MemoryKind::kPinned, pointer);
  };
  return release(free_memory, cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned) {
  return call([&](RuntimeState& state) {
    if (pointer == nullptr || size_bytes == 0) return cudaErrorInvalidValue;
    if (const cudaError_t error = state.check_unsafe_call(); error != cudaSuccess) return error;
    if (troupe::simt::Refusals::now().of_host_registration) return cudaErrorMemoryAllocation;
    return state.memory().pin(pointer, size_bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  const auto unpin = [&](RuntimeState& state) { return state.memory().unpin(pointer); };
  return release(unpin, cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call([&](RuntimeState& state) {
    if (device == nullptr || flags != 0 || state.memory().kind_of(host, 1) != MemoryKind::kPinned) {
      return cudaErrorInvalidValue;
    }
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&](RuntimeState& state) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    void* address = const_cast<void*>(pointer);
    switch (state.memory().kind_of(pointer, 1).value_or(MemoryKind::kPageable)) {
      case MemoryKind::kDevice: *attributes = {cudaMemoryTypeDevice, 0, address, nullptr}; break;
      case MemoryKind::kPinned: *attributes = {cudaMemoryTypeHost, 0, address, address}; break;
      case MemoryKind::kPageable: *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, address}; break;
    }
    return cudaSuccess;
  });
}

// ---- copies ----

namespace {

struct Copy {
  void* to = nullptr;
  size_t to_pitch = 0;
  const void* from = nullptr;
  size_t from_pitch = 0;
  size_t width = 0;  // bytes of a row
  size_t height = 1;
  cudaMemcpyKind kind = cudaMemcpyDefault;

  size_t extent(size_t pitch) const { return (height - 1) * pitch + width; }
};

void copy_rows(const Copy& copy) {
  for (size_t row = 0; row < copy.height; ++row) {
    std::memcpy(static_cast<std::byte*>(copy.to) + row * copy.to_pitch,
                static_cast<const std::byte*>(copy.from) + row * copy.from_pitch, copy.width);
  }
}

// Pinned memory is both sides'.
bool can_be(MemoryKind kind, bool on_device) {
  return kind == MemoryKind::kPinned || (kind == MemoryKind::kDevice) == on_device;
}

struct Ends {
  MemoryKind to, from;
};

std::optional<Ends> ends_of(RuntimeState& state, const Copy& copy) {
  const auto to = state.memory().kind_of(copy.to, copy.extent(copy.to_pitch));
  const auto from = state.memory().kind_of(copy.from, copy.extent(copy.from_pitch));
  if (!to || !from) return std::nullopt;
  if (copy.kind == cudaMemcpyDefault) return Ends{*to, *from};
  const bool to_device = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool from_device = copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  if (!can_be(*to, to_device) || !can_be(*from, from_device)) return std::nullopt;
  return Ends{*to, *from};
}

// The copy with its source as it is now.
std::function<void()> staged(Copy copy) {
  auto rows = std::make_shared<std::vector<std::byte>>(copy.width * copy.height);
  Copy staging = copy;
  staging.to = rows->data();
  staging.to_pitch = copy.width;
  copy_rows(staging);
  copy.from_pitch = copy.width;
  return [copy, rows]() mutable {
    copy.from = rows->data();
    copy_rows(copy);
  };
}

cudaError_t issue(RuntimeState& state, const Copy& copy, cudaStream_t stream, bool must_wait) {
  if (copy.width > copy.to_pitch || copy.width > copy.from_pitch) return cudaErrorInvalidPitchValue;
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const auto ends = ends_of(state, copy);
  if (!ends) return cudaErrorInvalidValue;
  const bool to_pageable = ends->to == MemoryKind::kPageable;
  const bool from_pageable = ends->from == MemoryKind::kPageable;
  if (to_pageable || from_pageable || must_wait) {
    if (const cudaError_t error = state.check_not_capturing(stream); error != cudaSuccess) {
      return error;
    }
  }
  const bool is_staged = from_pageable && ends->to == MemoryKind::kDevice;
  std::function<void()> run = is_staged ? staged(copy) : [copy] { copy_rows(copy); };
  const cudaError_t error = state.issue(stream, {cudaGraphNodeTypeMemcpy, std::move(run)});
  const bool is_in_device = ends->to == MemoryKind::kDevice && ends->from == MemoryKind::kDevice;
  const bool waits = (must_wait && !is_in_device) || to_pageable || (from_pageable && !is_staged);
  return error == cudaSuccess && waits ? state.wait_for_stream(stream) : error;
}

cudaError_t set(RuntimeState& state, void* to, int value, size_t size_bytes, cudaStream_t stream) {
  if (size_bytes == 0) return cudaSuccess;
  const auto kind = state.memory().kind_of(to, size_bytes);
  if (!kind || *kind == MemoryKind::kPageable) return cudaErrorInvalidValue;
  return state.issue(stream, {cudaGraphNodeTypeMemset, [=] { std::memset(to, value, size_bytes); }});
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind) {
  return call([&](RuntimeState& state) {
    return issue(state, {to, size_bytes, from, size_bytes, size_bytes, 1, kind}, nullptr, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](RuntimeState& state) {
    return issue(state, {to, size_bytes, from, size_bytes, size_bytes, 1, kind}, stream, false);
  });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return call([&](RuntimeState& state) {
    return issue(state, {to, to_pitch, from, from_pitch, width, height, kind}, nullptr, true);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](RuntimeState& state) {
    return issue(state, {to, to_pitch, from, from_pitch, width, height, kind}, stream, false);
  });
}

cudaError_t cudaMemset(void* to, int value, size_t size_bytes) {
  return call([&](RuntimeState& state) {
    const cudaError_t error = set(state, to, value, size_bytes, nullptr);
    const bool is_pinned = state.memory().kind_of(to, size_bytes) == MemoryKind::kPinned;
    return error == cudaSuccess && is_pinned ? state.wait_for_stream(nullptr) : error;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t size_bytes, cudaStream_t stream) {
  return call([&](RuntimeState& state) { return set(state, to, value, size_bytes, stream); });
}
