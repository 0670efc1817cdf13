// SPDX-License-Identifier: Apache-2.0
// Which pages of a device's pool are void because what was to be loaded into
// them was not there, or not intact: slices that read those give no token.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe {

// That a page is void is part of its contents: a thread that may touch these
// now, and no other, may ask for it or say so.
class VoidPages {
 public:
  VoidPages(std::size_t num_pages, std::size_t page_tokens)
      : page_tokens_(page_tokens), is_void_(num_pages) {}

  bool is_void(PageId page) const { return is_void_[page] != 0; }
  void set(PageId page, bool is_void);

  // By slice, when its batch has run: did it read a void page? A page written
  // from its first token on is void exactly if the slice that wrote it is.
  // Empty: none is.
  std::vector<bool> find_slices(const Batch& batch);

 private:
  std::size_t page_tokens_;
  std::vector<std::uint8_t> is_void_;  // by page; a byte each, as threads write neighbours
  std::atomic<std::size_t> num_void_{0};
};

}  // namespace troupe
