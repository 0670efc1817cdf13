// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/page_copier.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/program/batch_check.hpp"

namespace troupe {

PageCopier::PageCopier(const KvLayout& layout, std::uint32_t num_pages, std::byte* pool,
                       std::shared_ptr<HostPages> host_pages)
    : layout_(layout),
      num_pages_(num_pages),
      pool_(pool),
      host_pages_(std::move(host_pages)),
      void_pages_(num_pages, kKvPageTokens) {
  const std::size_t page_bytes = layout.num_layers * kv_page_bytes(layout);
  if (host_pages_ && host_pages_->page_bytes() != page_bytes)
    throw std::runtime_error("host pages of " + std::to_string(host_pages_->page_bytes()) +
                             " bytes for KV pages of " + std::to_string(page_bytes));
}

void PageCopier::check(const std::vector<PageCopy>& moves) const {
  check_copies(moves, num_pages_, host_pages_ ? host_pages_->num_pages() : 0);
}

std::byte* PageCopier::part(std::size_t layer, PageId page) const {
  return pool_ + kv_block_offset(layout_, layer, page, 0);
}

LayeredCopy::LayeredCopy(PageCopier& copier, const PageCopy& move)
    : copier_(&copier), move_(move), checksum_(move.generation) {
  if (move.is_store()) {
    stored_ = copier.host_pages_->begin_store(move.host_page);
  } else if (move.is_load()) {
    loaded_ = copier.host_pages_->find(move.host_page, move.generation);
  }
}

// The checksum is taken of what lies on the device: a bit that tips over on the
// way is found as well as one that does so on the host.
void LayeredCopy::copy_layer(std::size_t layer) {
  const std::size_t size = copier_->layer_bytes();
  const std::size_t offset = layer * size;
  std::byte* const device = copier_->part(layer, move_.device_page);
  if (move_.is_within()) {
    if (move_.from_page != move_.device_page)
      std::memcpy(device, copier_->part(layer, move_.from_page), size);
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
bool LayeredCopy::finish() {
  if (move_.is_store()) {
    if (!copier_->void_pages_.is_void(move_.device_page))
      copier_->host_pages_->finish_store(move_.host_page, move_.generation, checksum_.value());
    return true;
  }
  if (move_.is_within()) {
    copier_->void_pages_.set(move_.device_page, copier_->void_pages_.is_void(move_.from_page));
    return true;
  }
  const bool is_intact = !loaded_.bytes.empty() && checksum_.value() == loaded_.checksum;
  copier_->void_pages_.set(move_.device_page, !is_intact);
  return is_intact;
}

}  // namespace troupe
