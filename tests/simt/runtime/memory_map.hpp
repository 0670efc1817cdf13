// SPDX-License-Identifier: Apache-2.0
// Which memory is the device's, which is pinned, and how much there is. Device
// memory is exactly as long as asked for, so that the address sanitizer finds
// steps outside of it, and full of 0xFF (NaN in every float format) at first. What a
// driver takes unasked is only counted. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/simt/runtime/runtime.hpp"

namespace troupe::simt {

enum class MemoryKind : std::uint8_t { kPageable, kPinned, kDevice };

class MemoryMap {
 public:
  void set_budget(std::size_t size_bytes, const MemoryCosts& costs);  // of each GPU
  std::size_t budget() const;
  std::size_t free_bytes(int gpu = 0) const;
  std::size_t allocated_bytes(int gpu = 0) const;

  // Null when the budget or the machine has not so much. Not for zero bytes.
  void* allocate(MemoryKind kind, std::size_t size_bytes, int gpu = 0);
  // A kernel's code, the first time; false: there is no room for it.
  bool load(const void* code, int gpu);
  // An executable graph's own; nullopt: there is no room for it. The number is for drop_graph().
  std::optional<std::size_t> add_graph(int gpu);
  void drop_graph(std::size_t size_bytes, int gpu);
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
  // With the mutex held.
  std::size_t left(int gpu) const;
  std::size_t of(const std::map<int, std::size_t>& bytes, int gpu) const;

  mutable std::mutex mutex_;
  std::size_t budget_ = 0;
  MemoryCosts costs_;
  std::set<std::pair<int, const void*>> loaded_;  // by GPU and code
  std::uint64_t num_regions_ = 0;                 // ever
  std::map<int, std::size_t> used_;               // by GPU
  std::map<int, std::size_t> unseen_;             // so: code and graphs
  std::map<std::uintptr_t, Region> regions_;      // by start
};

}  // namespace troupe::simt
