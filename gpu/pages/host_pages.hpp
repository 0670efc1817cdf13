// SPDX-License-Identifier: Apache-2.0
// The host tier's memory: KV pages that are not on the device, or not only. It
// outlives devices, so what a worker that died had put here is still of use.
// Every page says what is in it (its generation) and carries a checksum, both
// written when the page is complete: what a copy that never ended has left
// behind, or bad memory, is not taken for KV. For a device in another process
// all of it, headers too, is in memory that both have mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/pages/page_memory.hpp"

namespace troupe {

// Different pages may be used by different threads at once (a device's copy
// thread, one that writes pages to disk); a page by one thread at a time, which
// the callers that order copies see to.
class HostPages {
 public:
  // Throws std::bad_alloc. Physical memory is taken page by page, when used.
  HostPages(std::uint32_t num_pages, std::size_t page_bytes);
  // In memory that another process can map. Throws std::runtime_error.
  static HostPages shared(std::uint32_t num_pages, std::size_t page_bytes);
  // The pages that another process shares. Throws std::runtime_error if the
  // descriptor is of something else.
  static HostPages map_shared(int descriptor, std::uint32_t num_pages, std::size_t page_bytes);

  std::uint32_t num_pages() const { return static_cast<std::uint32_t>(headers_.size()); }
  std::size_t page_bytes() const { return page_bytes_; }
  int descriptor() const { return memory_.descriptor(); }  // -1: not shared
  // All pages, one after the other.
  std::span<std::byte> memory() const { return {pages_, num_pages() * page_bytes_}; }

  // Where to write the page; until finish_store() it holds nothing. A writer
  // that has the PageChecksum of what it wrote saves reading it again.
  std::span<std::byte> begin_store(std::uint32_t page);
  void finish_store(std::uint32_t page, std::uint64_t generation);
  void finish_store(std::uint32_t page, std::uint64_t generation, std::uint64_t checksum);

  // The page's bytes; empty if they are not these contents, intact.
  std::span<const std::byte> load(std::uint32_t page, std::uint64_t generation) const;

  // The same for a reader that takes the checksum while it copies: the bytes
  // are those contents if their PageChecksum is this one.
  struct Unchecked {
    std::span<const std::byte> bytes;  // empty: other contents, or none
    std::uint64_t checksum = 0;
  };
  Unchecked find(std::uint32_t page, std::uint64_t generation) const;

 private:
  struct Header {
    std::uint64_t generation = 0;  // 0: nothing
    std::uint64_t checksum = 0;
  };

  HostPages(PageMemory memory, std::uint32_t num_pages, std::size_t page_bytes);

  Header& header(std::uint32_t page) const;  // throws std::out_of_range
  std::span<std::byte> bytes(std::uint32_t page) const;

  std::size_t page_bytes_;
  PageMemory memory_;  // headers, then pages
  std::span<Header> headers_;
  std::byte* pages_;
};

}  // namespace troupe
