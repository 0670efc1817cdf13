// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_pages.hpp"

#include "gpu/page_checksum.hpp"

namespace troupe {

HostPages::HostPages(std::uint32_t num_pages, std::size_t page_bytes)
    : page_bytes_(page_bytes), memory_(num_pages * page_bytes), headers_(num_pages) {}

std::span<std::byte> HostPages::bytes(std::uint32_t page) const {
  return {memory_.get() + page * page_bytes_, page_bytes_};
}

std::span<std::byte> HostPages::begin_store(std::uint32_t page) {
  headers_.at(page) = {};
  return bytes(page);
}

void HostPages::finish_store(std::uint32_t page, std::uint64_t generation) {
  finish_store(page, generation, page_checksum(bytes(page), generation));
}

void HostPages::finish_store(std::uint32_t page, std::uint64_t generation,
                             std::uint64_t checksum) {
  headers_.at(page) = {.generation = generation, .checksum = checksum};
}

std::span<const std::byte> HostPages::load(std::uint32_t page, std::uint64_t generation) const {
  const Unchecked found = find(page, generation);
  if (found.bytes.empty() || page_checksum(found.bytes, generation) != found.checksum) return {};
  return found.bytes;
}

HostPages::Unchecked HostPages::find(std::uint32_t page, std::uint64_t generation) const {
  const Header& header = headers_.at(page);
  if (generation == 0 || header.generation != generation) return {};
  return {.bytes = bytes(page), .checksum = header.checksum};
}

}  // namespace troupe
