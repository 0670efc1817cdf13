// SPDX-License-Identifier: Apache-2.0
// Memory taken from the system in whole pages: address space at once, physical
// memory when first touched. Holds the KV pool, the arena and the host tier; the
// last of these can be shared with another process, through a file descriptor.
#pragma once

#include <cstddef>

namespace troupe {

// Size of the system's large pages, which PageMemory asks for.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

constexpr std::size_t whole_huge_pages(std::size_t size_bytes) {
  return (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

class PageMemory {
 public:
  PageMemory() = default;
  // Throws std::bad_alloc. The bytes read as zero, but nothing relies on it.
  explicit PageMemory(std::size_t size_bytes);
  // Memory that another process can map too; its size is sealed. Throws
  // std::runtime_error.
  static PageMemory shared(std::size_t size_bytes);
  // Memory that another process made by shared(). The descriptor is duplicated. Throws
  // std::runtime_error if it is anything else, or not of this size.
  static PageMemory map_shared(int descriptor, std::size_t size_bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  // Aligned to 4096 bytes; of kHugePageBytes and more that are not shared, to these.
  std::byte* get() const { return memory_; }
  std::size_t size_bytes() const { return size_bytes_; }
  int descriptor() const { return descriptor_; }  // of shared memory; else -1

  // Gives the physical memory behind the first bytes back, from the next large page on; its contents are
  // lost, the addresses stay. Not for shared memory.
  void release_physical(std::size_t num_kept_bytes = 0);

 private:
  void map_descriptor();

  std::byte* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace troupe
