// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_pages.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {
namespace {

std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t generation) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), generation);
}

}  // namespace

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
  headers_.at(page) = {.generation = generation,
                       .checksum = checksum_of(bytes(page), generation)};
}

std::span<const std::byte> HostPages::load(std::uint32_t page, std::uint64_t generation) const {
  const Header& header = headers_.at(page);
  if (generation == 0 || header.generation != generation) return {};
  const std::span<const std::byte> contents = bytes(page);
  if (checksum_of(contents, generation) != header.checksum) return {};
  return contents;
}

}  // namespace troupe
