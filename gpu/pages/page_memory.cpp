// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/page_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/memory_plan.hpp"

namespace troupe {
namespace {

constexpr std::size_t kSmallPageBytes = 4096;

// Nobody can cut the memory under the other process, which would fault.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void refuse(std::size_t size_bytes, const std::string& reason) {
  throw std::runtime_error("can't share " + shown_bytes(size_bytes) +
                           " of memory between processes: " + reason);
}

}  // namespace

// Large memory begins at a huge page: the system gives such a page whole, and one that two
// owners have a part of is resident for both.
PageMemory::PageMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  const std::size_t spare = size_bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapped = ::mmap(nullptr, size_bytes + spare, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(mapped);
  if (spare > 0) {
    const std::size_t in_front = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePageBytes;
    const std::size_t end = (size_bytes + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes;
    if (in_front > 0) ::munmap(memory_, in_front);
    memory_ += in_front;
    if (end < size_bytes + spare - in_front) ::munmap(memory_ + end, size_bytes + spare - in_front - end);
  }
  // Fewer TLB misses where the system grants it; works without.
  ::madvise(memory_, size_bytes, MADV_HUGEPAGE);
}

PageMemory PageMemory::shared(std::size_t size_bytes) {
  PageMemory memory;
  memory.size_bytes_ = size_bytes;
  memory.descriptor_ = ::memfd_create("troupe host pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor_ < 0) refuse(size_bytes, std::strerror(errno));
  if (::ftruncate(memory.descriptor_, static_cast<off_t>(size_bytes)) != 0 ||
      ::fcntl(memory.descriptor_, F_ADD_SEALS, kSizeSeals) != 0)
    refuse(size_bytes, std::strerror(errno));
  memory.map_descriptor();
  return memory;
}

PageMemory PageMemory::map_shared(int descriptor, std::size_t size_bytes) {
  PageMemory memory;
  memory.size_bytes_ = size_bytes;
  memory.descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  struct stat status {};
  if (memory.descriptor_ < 0 || ::fstat(memory.descriptor_, &status) != 0)
    refuse(size_bytes, std::strerror(errno));
  const int seals = ::fcntl(memory.descriptor_, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) refuse(size_bytes, "its size is not sealed");
  if (static_cast<std::uint64_t>(status.st_size) != size_bytes)
    refuse(size_bytes, "got a descriptor of " + std::to_string(status.st_size) + " bytes");
  memory.map_descriptor();
  return memory;
}

void PageMemory::map_descriptor() {
  if (size_bytes_ == 0) return;
  void* memory = ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) refuse(size_bytes_, std::strerror(errno));
  ::madvise(memory, size_bytes_, MADV_HUGEPAGE);
  memory_ = static_cast<std::byte*>(memory);
}

PageMemory::~PageMemory() {
  if (memory_ != nullptr) ::munmap(memory_, size_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void PageMemory::release_physical(std::size_t num_kept_bytes) {
  const std::size_t kept = whole_huge_pages(num_kept_bytes);
  if (kept < size_bytes_) ::madvise(memory_ + kept, size_bytes_ - kept, MADV_DONTNEED);
}

}  // namespace troupe
