// SPDX-License-Identifier: Apache-2.0
// Moves KV pages between the device's pool and the host tier, and remembers
// which pages of the pool are void because what was to be loaded into them was
// not there, or not intact: slices that read those give no token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/batch.hpp"
#include "gpu/host/kernels/kv_pages.hpp"
#include "gpu/host_pages.hpp"

namespace troupe {

// One thread: the device's executor.
class PageMover {
 public:
  // `pool`: memory of kv_pool_bytes(layout). host_pages may be null. Throws
  // std::runtime_error if its pages have another size than the pool's.
  PageMover(const KvLayout& layout, std::byte* pool, std::shared_ptr<HostPages> host_pages);

  // In order. Returns the generations that could not be loaded. Throws
  // std::runtime_error for pages that do not exist.
  std::vector<std::uint64_t> move(const std::vector<PageMove>& moves);

  // By slice: does it read a void page? What a slice writes from the beginning
  // of a page on is void exactly if the slice is. Empty: none is.
  std::vector<bool> find_void_slices(const Batch& batch);

 private:
  void store(const PageMove& move);
  bool load(const PageMove& move);
  void set_void(PageId page, bool is_void);
  std::byte* part(std::size_t layer, PageId page) const;

  KvLayout layout_;
  std::byte* pool_;
  std::shared_ptr<HostPages> host_pages_;
  std::vector<bool> is_void_;  // by page
  std::size_t num_void_ = 0;
};

}  // namespace troupe
