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

void PageCopier::check(const std::vector<PageCopy>& copies) const {
  check_copies(copies, num_pages_, host_pages_ ? host_pages_->num_pages() : 0);
}

std::byte* PageCopier::part(std::size_t layer, PageId page) const {
  return pool_ + kv_block_offset(layout_, layer, page, 0);
}

LayeredCopy::LayeredCopy(PageCopier& copier, const PageCopy& copy)
    : copier_(&copier), page_(copy), checksum_(copy.generation) {
  if (copy.is_store()) {
    stored_ = copier.host_pages_->begin_store(copy.host_page);
  } else if (copy.is_load()) {
    loaded_ = copier.host_pages_->find(copy.host_page, copy.generation);
  }
}

// The checksum is taken of what lies on the device: a bit that tips over on the
// way is found as well as one that does so on the host.
void LayeredCopy::copy_layer(std::size_t layer) {
  const std::size_t size = copier_->layer_bytes();
  const std::size_t offset = layer * size;
  std::byte* const device = copier_->part(layer, page_.device_page);
  if (page_.is_within()) {
    if (page_.from_page != page_.device_page)
      std::memcpy(device, copier_->part(layer, page_.from_page), size);
    return;
  }
  if (page_.is_store()) {
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
  if (page_.is_store()) {
    if (!copier_->void_pages_.is_void(page_.device_page))
      copier_->host_pages_->finish_store(page_.host_page, page_.generation, checksum_.value());
    return true;
  }
  if (page_.is_within()) {
    copier_->void_pages_.set(page_.device_page, copier_->void_pages_.is_void(page_.from_page));
    return true;
  }
  const bool is_intact = !loaded_.bytes.empty() && checksum_.value() == loaded_.checksum;
  copier_->void_pages_.set(page_.device_page, !is_intact);
  return is_intact;
}

}  // namespace troupe
