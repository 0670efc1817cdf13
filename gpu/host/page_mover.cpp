// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/page_mover.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

PageMover::PageMover(const KvLayout& layout, std::byte* pool,
                     std::shared_ptr<HostPages> host_pages)
    : layout_(layout),
      pool_(pool),
      host_pages_(std::move(host_pages)),
      is_void_(layout.num_pages) {
  const std::size_t page_bytes = layout.num_layers * kv_page_bytes(layout);
  if (host_pages_ && host_pages_->page_bytes() != page_bytes)
    throw std::runtime_error("host pages of " + std::to_string(host_pages_->page_bytes()) +
                             " bytes for KV pages of " + std::to_string(page_bytes));
}

std::vector<std::uint64_t> PageMover::move(const std::vector<PageMove>& moves) {
  std::vector<std::uint64_t> failed;
  for (const PageMove& move : moves) {
    if (!host_pages_ || move.host_page >= host_pages_->num_pages() ||
        move.device_page >= layout_.num_pages)
      throw std::runtime_error("a move between device page " + std::to_string(move.device_page) +
                               " and host page " + std::to_string(move.host_page) +
                               ": there are none such");
    if (move.to_host) {
      store(move);
    } else if (!load(move)) {
      failed.push_back(move.generation);
    }
  }
  return failed;
}

// A void page stays on the device: the host page then holds nothing.
void PageMover::store(const PageMove& move) {
  const std::span<std::byte> to = host_pages_->begin_store(move.host_page);
  if (is_void_[move.device_page]) return;
  const std::size_t size = kv_page_bytes(layout_);
  for (std::size_t layer = 0; layer < layout_.num_layers; ++layer)
    std::memcpy(to.data() + layer * size, part(layer, move.device_page), size);
  host_pages_->finish_store(move.host_page, move.generation);
}

bool PageMover::load(const PageMove& move) {
  const std::span<const std::byte> from = host_pages_->load(move.host_page, move.generation);
  set_void(move.device_page, from.empty());
  const std::size_t size = kv_page_bytes(layout_);
  for (std::size_t layer = 0; !from.empty() && layer < layout_.num_layers; ++layer)
    std::memcpy(part(layer, move.device_page), from.data() + layer * size, size);
  return !from.empty();
}

std::vector<bool> PageMover::find_void_slices(const Batch& batch) {
  std::vector<bool> is_void;
  if (num_void_ == 0) return is_void;
  for (const SequenceSlice& slice : batch.slices) {
    const PageId* pages = batch.page_table.data() + slice.first_page;
    const std::size_t read = (slice.context_length + kKvPageTokens - 1) / kKvPageTokens;
    const std::size_t end =
        (slice.context_length + slice.num_tokens + kKvPageTokens - 1) / kKvPageTokens;
    bool reads_void = false;
    for (std::size_t i = 0; i < read; ++i) reads_void = reads_void || is_void_[pages[i]];
    for (std::size_t i = read; i < end; ++i) set_void(pages[i], reads_void);
    is_void.push_back(reads_void);
  }
  return is_void;
}

void PageMover::set_void(PageId page, bool is_void) {
  if (is_void_[page] == is_void) return;
  is_void_[page] = is_void;
  if (is_void) {
    ++num_void_;
  } else {
    --num_void_;
  }
}

std::byte* PageMover::part(std::size_t layer, PageId page) const {
  return pool_ + kv_block_offset(layout_, layer, page, 0);
}

}  // namespace troupe
