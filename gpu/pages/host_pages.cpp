// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/host_pages.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/pages/page_checksum.hpp"

namespace troupe {
namespace {

constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kPagesAlignment = 4096;  // of the first page

std::size_t header_bytes(std::uint32_t num_pages) {
  return (num_pages * kHeaderBytes + kPagesAlignment - 1) / kPagesAlignment * kPagesAlignment;
}

// Throws std::bad_alloc: no address space holds it.
std::size_t total_bytes(std::uint32_t num_pages, std::size_t page_bytes) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(std::size_t{num_pages}, page_bytes, &bytes) ||
      __builtin_add_overflow(bytes, header_bytes(num_pages), &bytes))
    throw std::bad_alloc();
  return bytes;
}

}  // namespace

HostPages::HostPages(std::uint32_t num_pages, std::size_t page_bytes)
    : HostPages(PageMemory(total_bytes(num_pages, page_bytes)), num_pages, page_bytes) {}

HostPages HostPages::shared(std::uint32_t num_pages, std::size_t page_bytes) {
  return {PageMemory::shared(total_bytes(num_pages, page_bytes)), num_pages, page_bytes};
}

HostPages HostPages::map_shared(int descriptor, std::uint32_t num_pages, std::size_t page_bytes) {
  return {PageMemory::map_shared(descriptor, total_bytes(num_pages, page_bytes)), num_pages, page_bytes};
}

// New memory reads as zero, and so do the headers in it: nothing is stored.
HostPages::HostPages(PageMemory memory, std::uint32_t num_pages, std::size_t page_bytes)
    : page_bytes_(page_bytes),
      memory_(std::move(memory)),
      headers_(reinterpret_cast<Header*>(memory_.get()), num_pages),
      pages_(memory_.get() + header_bytes(num_pages)) {
  static_assert(sizeof(Header) == kHeaderBytes);
}

HostPages::Header& HostPages::header(std::uint32_t page) const {
  if (page >= headers_.size()) throw std::out_of_range("there is no host page " + std::to_string(page));
  return headers_[page];
}

std::span<std::byte> HostPages::bytes(std::uint32_t page) const {
  return {pages_ + page * page_bytes_, page_bytes_};
}

std::span<std::byte> HostPages::begin_store(std::uint32_t page) {
  header(page) = {};
  return bytes(page);
}

void HostPages::finish_store(std::uint32_t page, std::uint64_t generation) {
  finish_store(page, generation, page_checksum(bytes(page), generation));
}

void HostPages::finish_store(std::uint32_t page, std::uint64_t generation, std::uint64_t checksum) {
  header(page) = {.generation = generation, .checksum = checksum};
}

std::span<const std::byte> HostPages::load(std::uint32_t page, std::uint64_t generation) const {
  const Unchecked found = find(page, generation);
  if (found.bytes.empty() || page_checksum(found.bytes, generation) != found.checksum) return {};
  return found.bytes;
}

HostPages::Unchecked HostPages::find(std::uint32_t page, std::uint64_t generation) const {
  const Header& of_page = header(page);
  if (generation == 0 || of_page.generation != generation) return {};
  return {.bytes = bytes(page), .checksum = of_page.checksum};
}

}  // namespace troupe
