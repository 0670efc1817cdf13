// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/pool_layout.hpp"

#include <doctest/doctest.h>

using namespace troupe;

namespace pool_layout_test {
namespace {

KvLayout layout_of(std::size_t num_pages, std::size_t num_kv_heads, std::size_t head_dim) {
  return {.num_layers = 3,
          .num_pages = num_pages,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .type = DataType::kBF16};
}

}  // namespace

TEST_CASE("pool layout: every layer of a large pool begins at a huge page, and no page is lost") {
  for (const std::size_t head_dim : {64, 80, 128}) {
    for (const std::size_t num_pages : {5000, 5001, 8192}) {
      const KvLayout asked = layout_of(num_pages, 5, head_dim);
      const KvLayout layout = in_whole_huge_pages(asked);
      CHECK(kv_block_offset(layout, 1, 0, 0) % kHugePageBytes == 0);
      CHECK(layout.num_pages >= num_pages);
      CHECK(in_whole_huge_pages(layout).num_pages == layout.num_pages);
    }
  }
  CHECK(in_whole_huge_pages(layout_of(2078, 2, 64)).num_pages == 2176);  // 128 of 16 KiB fill a huge page
}

TEST_CASE("pool layout: a pool of less than a huge page a layer stays as it is") {
  CHECK(in_whole_huge_pages(layout_of(127, 2, 64)).num_pages == 127);
}

}  // namespace pool_layout_test
