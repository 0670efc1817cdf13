// SPDX-License-Identifier: Apache-2.0
// The host tier's memory: KV pages that are not on the device, or not only. It
// outlives devices, so what a worker that died had put here is still of use.
// Every page says what is in it (its generation) and carries a checksum, both
// written when the page is complete: what a copy that never ended has left
// behind, or bad memory, is not taken for KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/page_memory.hpp"

namespace troupe {

// One thread at a time: that of the device.
class HostPages {
 public:
  // Throws std::bad_alloc. Physical memory is taken page by page, when used.
  HostPages(std::uint32_t num_pages, std::size_t page_bytes);

  std::uint32_t num_pages() const { return static_cast<std::uint32_t>(headers_.size()); }
  std::size_t page_bytes() const { return page_bytes_; }

  // Where to write the page; until finish() it holds nothing.
  std::span<std::byte> begin_store(std::uint32_t page);
  void finish_store(std::uint32_t page, std::uint64_t generation);

  // The page's bytes; empty if they are not these contents, intact.
  std::span<const std::byte> load(std::uint32_t page, std::uint64_t generation) const;

 private:
  struct Header {
    std::uint64_t generation = 0;  // 0: nothing
    std::uint64_t checksum = 0;
  };

  std::span<std::byte> bytes(std::uint32_t page) const;

  std::size_t page_bytes_;
  PageMemory memory_;
  std::vector<Header> headers_;
};

}  // namespace troupe
