// SPDX-License-Identifier: Apache-2.0
#include "gpu/page_memory.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace troupe {

PageMemory::PageMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Fewer TLB misses where the system grants it; works without.
  ::madvise(memory, size_bytes, MADV_HUGEPAGE);
  memory_ = static_cast<std::byte*>(memory);
}

PageMemory::~PageMemory() {
  if (memory_ != nullptr) ::munmap(memory_, size_bytes_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void PageMemory::release_physical() {
  if (memory_ != nullptr) ::madvise(memory_, size_bytes_, MADV_DONTNEED);
}

}  // namespace troupe
