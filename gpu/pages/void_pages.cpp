// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/void_pages.hpp"

namespace troupe {

void VoidPages::set(PageId page, bool is_void) {
  if ((is_void_[page] != 0) == is_void) return;
  is_void_[page] = is_void ? 1 : 0;
  if (is_void) {
    num_void_.fetch_add(1, std::memory_order_relaxed);
  } else {
    num_void_.fetch_sub(1, std::memory_order_relaxed);
  }
}

std::vector<bool> VoidPages::find_slices(const Batch& batch) {
  std::vector<bool> voided;
  if (num_void_.load(std::memory_order_relaxed) == 0) return voided;
  for (const SequenceSlice& slice : batch.slices) {
    const PageId* pages = batch.page_table.data() + slice.first_page;
    const std::size_t read = (slice.context_length + page_tokens_ - 1) / page_tokens_;
    const std::size_t end = (slice.context_length + slice.num_tokens + page_tokens_ - 1) / page_tokens_;
    bool reads_void = false;
    for (std::size_t i = 0; i < read; ++i) reads_void = reads_void || is_void(pages[i]);
    for (std::size_t i = read; i < end; ++i) set(pages[i], reads_void);
    voided.push_back(reads_void);
  }
  return voided;
}

}  // namespace troupe
