// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/memory_map.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::simt {
namespace {

constexpr int kNeverWritten = 0xFF;
constexpr std::size_t kGranule = 256;  // what the budget is counted in

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::size_t counted(std::size_t size_bytes) { return (size_bytes + kGranule - 1) / kGranule * kGranule; }

}  // namespace

// Code stays loaded while a process lives, but tests are to see it loaded again.
void MemoryMap::set_budget(std::size_t size_bytes, const MemoryCosts& costs) {
  const std::lock_guard lock(mutex_);
  budget_ = size_bytes;
  costs_ = costs;
  loaded_.clear();
  unseen_.clear();
}

std::size_t MemoryMap::budget() const {
  const std::lock_guard lock(mutex_);
  return budget_;
}

std::size_t MemoryMap::of(const std::map<int, std::size_t>& bytes, int gpu) const {
  const auto found = bytes.find(gpu);
  return found == bytes.end() ? 0 : found->second;
}

std::size_t MemoryMap::left(int gpu) const {
  return budget_ - std::min(budget_, costs_.context_bytes + of(used_, gpu) + of(unseen_, gpu));
}

std::size_t MemoryMap::free_bytes(int gpu) const {
  const std::lock_guard lock(mutex_);
  return left(gpu);
}

std::size_t MemoryMap::allocated_bytes(int gpu) const {
  const std::lock_guard lock(mutex_);
  return of(used_, gpu);
}

void* MemoryMap::allocate(MemoryKind kind, std::size_t size_bytes, int gpu) {
  const std::lock_guard lock(mutex_);
  if (kind == MemoryKind::kDevice && (size_bytes > budget_ || counted(size_bytes) > left(gpu)))
    return nullptr;
  std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(::operator new(size_bytes, kAlignment, std::nothrow)));
  if (memory == nullptr) return nullptr;
  std::memset(memory.get(), kNeverWritten, size_bytes);
  if (kind == MemoryKind::kDevice) used_[gpu] += counted(size_bytes);
  void* pointer = memory.get();
  regions_.emplace(address_of(pointer), Region{kind, size_bytes, gpu, num_regions_++, std::move(memory)});
  return pointer;
}

bool MemoryMap::load(const void* code, int gpu) {
  const std::lock_guard lock(mutex_);
  if (loaded_.contains({gpu, code})) return true;
  if (costs_.kernel_bytes > left(gpu)) return false;
  loaded_.insert({gpu, code});
  unseen_[gpu] += costs_.kernel_bytes;
  return true;
}

std::optional<std::size_t> MemoryMap::add_graph(int gpu) {
  const std::lock_guard lock(mutex_);
  if (costs_.graph_bytes > left(gpu)) return std::nullopt;
  unseen_[gpu] += costs_.graph_bytes;
  return costs_.graph_bytes;
}

void MemoryMap::drop_graph(std::size_t size_bytes, int gpu) {
  const std::lock_guard lock(mutex_);
  std::size_t& unseen = unseen_[gpu];
  unseen -= std::min(unseen, size_bytes);
}

bool MemoryMap::release(MemoryKind kind, const void* pointer) { return erase(kind, pointer, true); }

bool MemoryMap::unpin(const void* pointer) { return erase(MemoryKind::kPinned, pointer, false); }

bool MemoryMap::erase(MemoryKind kind, const void* pointer, bool is_own) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(address_of(pointer));
  if (found == regions_.end() || found->second.kind != kind || (found->second.memory != nullptr) != is_own) {
    return false;
  }
  if (kind == MemoryKind::kDevice) used_[found->second.gpu] -= counted(found->second.size_bytes);
  regions_.erase(found);
  return true;
}

bool MemoryMap::pin(void* pointer, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t start = address_of(pointer), end = start + size_bytes;
  const auto next = regions_.lower_bound(start);
  if (next != regions_.end() && next->first < end) return false;
  if (next != regions_.begin()) {
    const auto& [before, region] = *std::prev(next);
    if (before + region.size_bytes > start) return false;
  }
  regions_.emplace(start, Region{MemoryKind::kPinned, size_bytes, 0, num_regions_++, nullptr});
  return true;
}

std::optional<MemoryKind> MemoryMap::kind_of(const void* pointer, std::size_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t start = address_of(pointer), end = start + size_bytes;
  const auto after = regions_.upper_bound(start);
  if (after != regions_.begin()) {
    const auto& [first, region] = *std::prev(after);
    if (start < first + region.size_bytes) {
      return end <= first + region.size_bytes ? std::optional(region.kind) : std::nullopt;
    }
  }
  if (after != regions_.end() && after->first < end) return std::nullopt;
  return MemoryKind::kPageable;
}

std::size_t MemoryMap::num_allocations(MemoryKind kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      regions_.begin(), regions_.end(), [&](const auto& region) { return region.second.kind == kind; }));
}

std::vector<MemoryMap::Allocation> MemoryMap::device_allocations(std::size_t most_bytes) const {
  const std::lock_guard lock(mutex_);
  std::vector<Allocation> allocations;
  for (const auto& [start, region] : regions_) {
    if (region.kind != MemoryKind::kDevice || region.size_bytes > most_bytes) continue;
    allocations.push_back({region.number, region.memory.get(), region.size_bytes});
  }
  return allocations;
}

}  // namespace troupe::simt
