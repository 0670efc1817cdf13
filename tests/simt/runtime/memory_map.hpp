// SPDX-License-Identifier: Apache-2.0
// Which memory is the device's, which is pinned, and how much there is. Device
// memory is exactly as long as asked for, so that the address sanitizer finds
// steps outside of it, and full of 0xFF (NaN in every float format) at first. Any
// thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

namespace troupe::simt {

enum class MemoryKind : std::uint8_t { kPageable, kPinned, kDevice };

class MemoryMap {
 public:
  void set_budget(std::size_t size_bytes);  // of each GPU
  std::size_t budget() const;
  std::size_t free_bytes(int gpu = 0) const;

  // Null when the budget or the machine has not so much. Not for zero bytes.
  void* allocate(MemoryKind kind, std::size_t size_bytes, int gpu = 0);
  bool release(MemoryKind kind, const void* pointer);  // false: it is not one's start
  // Memory of somebody else, pinned; false: part of it is.
  bool pin(void* pointer, std::size_t size_bytes);
  bool unpin(const void* pointer);

  // nullopt if it lies partly or wholly outside of an allocation it touches.
  std::optional<MemoryKind> kind_of(const void* pointer, std::size_t size_bytes) const;

  std::size_t num_allocations(MemoryKind kind) const;

  struct Allocation {
    std::uint64_t number;  // of all there were
    std::byte* memory;
    std::size_t size_bytes;
  };
  // On the device, of at most so many bytes each.
  std::vector<Allocation> device_allocations(std::size_t most_bytes) const;

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  struct Region {
    MemoryKind kind;
    std::size_t size_bytes;
    int gpu;
    std::uint64_t number;
    std::unique_ptr<std::byte, Free> memory;  // null: somebody else's
  };
  bool erase(MemoryKind kind, const void* pointer, bool is_own);

  mutable std::mutex mutex_;
  std::size_t budget_ = 0;
  std::uint64_t num_regions_ = 0;             // ever
  std::map<int, std::size_t> used_;           // by GPU
  std::map<std::uintptr_t, Region> regions_;  // by start
};

}  // namespace troupe::simt
