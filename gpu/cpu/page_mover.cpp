// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/page_mover.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/program/batch_check.hpp"

namespace troupe {

PageMover::PageMover(const KvLayout& layout, std::byte* pool, std::shared_ptr<HostPages> host_pages)
    : layout_(layout),
      pool_(pool),
      host_pages_(std::move(host_pages)),
      void_pages_(layout.num_pages, kKvPageTokens) {
  const std::size_t page_bytes = layout.num_layers * kv_page_bytes(layout);
  if (host_pages_ && host_pages_->page_bytes() != page_bytes)
    throw std::runtime_error("host pages of " + std::to_string(host_pages_->page_bytes()) +
                             " bytes for KV pages of " + std::to_string(page_bytes));
}

void PageMover::check(const std::vector<PageCopy>& moves) const {
  check_copies(moves, layout_.num_pages, host_pages_ ? host_pages_->num_pages() : 0);
}

std::byte* PageMover::part(std::size_t layer, PageId page) const {
  return pool_ + kv_block_offset(layout_, layer, page, 0);
}

LayeredMove::LayeredMove(PageMover& mover, const PageCopy& move)
    : mover_(&mover), move_(move), checksum_(move.generation) {
  if (move.is_store()) {
    stored_ = mover.host_pages_->begin_store(move.host_page);
  } else if (move.is_load()) {
    loaded_ = mover.host_pages_->find(move.host_page, move.generation);
  }
}

// The checksum is taken of what lies on the device: a bit that tips over on the
// way is found as well as one that does so on the host.
void LayeredMove::copy_layer(std::size_t layer) {
  const std::size_t size = mover_->layer_bytes();
  const std::size_t offset = layer * size;
  std::byte* const device = mover_->part(layer, move_.device_page);
  if (move_.is_within()) {
    if (move_.from_page != move_.device_page) std::memcpy(device, mover_->part(layer, move_.from_page), size);
    return;
  }
  if (move_.is_store()) {
    std::memcpy(stored_.data() + offset, device, size);
  } else if (!loaded_.bytes.empty()) {
    std::memcpy(device, loaded_.bytes.data() + offset, size);
  } else {
    return;
  }
  checksum_.add({device, size});
}

// A void page stays on the device: the host page then holds nothing.
bool LayeredMove::finish() {
  if (move_.is_store()) {
    if (!mover_->void_pages_.is_void(move_.device_page))
      mover_->host_pages_->finish_store(move_.host_page, move_.generation, checksum_.value());
    return true;
  }
  if (move_.is_within()) {
    mover_->void_pages_.set(move_.device_page, mover_->void_pages_.is_void(move_.from_page));
    return true;
  }
  const bool is_intact = !loaded_.bytes.empty() && checksum_.value() == loaded_.checksum;
  mover_->void_pages_.set(move_.device_page, !is_intact);
  return is_intact;
}

}  // namespace troupe
