// SPDX-License-Identifier: Apache-2.0
// A small pool of KV pages with a host tier, whose pages can be moved whole,
// one after the other: what any other way of moving them must come to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/cpu/page_copier.hpp"

namespace troupe {

inline constexpr KvLayout kSmallLayout{
    .num_layers = 3, .num_pages = 6, .num_kv_heads = 2, .head_dim = 8, .type = DataType::kF32};
inline constexpr std::size_t kSmallPartBytes = kv_page_bytes(kSmallLayout);
inline constexpr std::size_t kSmallPageBytes = kSmallLayout.num_layers * kSmallPartBytes;
inline constexpr std::uint32_t kSmallHostPages = 4;

struct SmallPool {
  std::vector<std::byte> bytes = std::vector<std::byte>(kv_pool_bytes(kSmallLayout));
  std::shared_ptr<HostPages> host = std::make_shared<HostPages>(kSmallHostPages, kSmallPageBytes);
  PageCopier copier{kSmallLayout, kSmallLayout.num_pages, bytes.data(), host};

  std::byte* part(std::size_t layer, PageId page) {
    return bytes.data() + kv_block_offset(kSmallLayout, layer, page, 0);
  }
  // With a value of its own in each layer.
  void fill(PageId page, int value) {
    for (std::size_t layer = 0; layer < kSmallLayout.num_layers; ++layer)
      std::fill_n(part(layer, page), kSmallPartBytes, static_cast<std::byte>(value + layer));
  }
  bool holds(PageId page, int value) {
    for (std::size_t layer = 0; layer < kSmallLayout.num_layers; ++layer)
      if (!std::all_of(part(layer, page), part(layer, page) + kSmallPartBytes,
                       [&](std::byte b) { return b == static_cast<std::byte>(value + layer); }))
        return false;
    return true;
  }
  // Returns the generations that could not be loaded.
  std::vector<std::uint64_t> move_in_order(const std::vector<PageCopy>& moves) {
    copier.check(moves);
    std::vector<std::uint64_t> failed;
    for (const PageCopy& move : moves) {
      LayeredCopy copy(copier, move);
      for (std::size_t layer = 0; layer < kSmallLayout.num_layers; ++layer) copy.copy_layer(layer);
      if (!copy.finish()) failed.push_back(move.generation);
    }
    return failed;
  }
};

inline PageCopy store(PageId page, std::uint32_t host_page, std::uint64_t generation) {
  return {
      .direction = PageCopy::kStore, .device_page = page, .host_page = host_page, .generation = generation};
}
inline PageCopy load(PageId page, std::uint32_t host_page, std::uint64_t generation) {
  return {
      .direction = PageCopy::kLoad, .device_page = page, .host_page = host_page, .generation = generation};
}

inline PageCopy within(PageId page, PageId from) {
  return {.direction = PageCopy::kWithin, .device_page = page, .from_page = from};
}

// As bad memory would, behind the back of those who look after the page.
inline void flip_bit(HostPages& pages, std::uint32_t page, std::uint64_t generation, std::size_t byte) {
  const auto contents = pages.load(page, generation);
  if (!contents.empty()) const_cast<std::byte&>(contents[byte]) ^= std::byte{1};
}

}  // namespace troupe
