// SPDX-License-Identifier: Apache-2.0
// Copies KV pages between the device's pool and the host tier, and within the pool,
// and remembers which pages of the pool are void.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/pages/host_pages.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/pages/page_checksum.hpp"
#include "gpu/pages/void_pages.hpp"
#include "gpu/program/batch.hpp"

namespace troupe {

// Two threads: copies are made by the device's copy thread, find_void_slices()
// is the executor's. That a page is void is part of its contents: a thread that
// may not touch these now must not ask (decision 0008 says which waits for which).
class PageCopier {
 public:
  // num_pages: of the layout's, those that there are for batches. `pool`: memory of kv_pool_bytes(layout).
  // host_pages may be null. Throws std::runtime_error if its pages have another size than the pool's.
  PageCopier(const KvLayout& layout, std::uint32_t num_pages, std::byte* pool,
             std::shared_ptr<HostPages> host_pages);

  std::size_t num_layers() const { return layout_.num_layers; }
  std::uint32_t num_pages() const { return num_pages_; }
  std::size_t layer_bytes() const { return kv_page_bytes(layout_); }  // of a page

  // Throws std::runtime_error if there are no such pages.
  void check(const std::vector<PageCopy>& copies) const;

  // VoidPages::find_slices, when the batch has run.
  std::vector<bool> find_void_slices(const Batch& batch) { return void_pages_.find_slices(batch); }

 private:
  friend class LayeredCopy;

  std::byte* part(std::size_t layer, PageId page) const;

  KvLayout layout_;
  std::uint32_t num_pages_;
  std::byte* pool_;
  std::shared_ptr<HostPages> host_pages_;
  VoidPages void_pages_;
};

// One copy under way, of pages that exist:
//
//   begin (constructor) ──► copy_layer(0) … copy_layer(num_layers - 1) ──► finish
//
// One that is given up half-way leaves nothing in a host page, and whatever in
// a device page.
class LayeredCopy {
 public:
  LayeredCopy(PageCopier& copier, const PageCopy& copy);

  const PageCopy& page() const { return page_; }
  void copy_layer(std::size_t layer);
  // False: a load that did not find its contents, or not intact.
  bool finish();

 private:
  PageCopier* copier_;
  PageCopy page_;
  std::span<std::byte> stored_;  // of a store: the host page
  HostPages::Unchecked loaded_;  // of a load
  PageChecksum checksum_;
};

}  // namespace troupe
