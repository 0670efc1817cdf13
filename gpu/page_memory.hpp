// SPDX-License-Identifier: Apache-2.0
// Memory taken from the system in whole pages: address space at once, physical
// memory when first touched. Holds the KV pool and the arena.
#pragma once

#include <cstddef>

namespace troupe {

class PageMemory {
 public:
  PageMemory() = default;
  // Throws std::bad_alloc. The bytes read as zero, but nobody relies on it.
  explicit PageMemory(std::size_t size_bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  std::byte* get() const { return memory_; }  // aligned to 4096 bytes
  std::size_t size_bytes() const { return size_bytes_; }

  // Gives the physical memory back; the contents are lost, the addresses stay.
  void release_physical();

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace troupe
