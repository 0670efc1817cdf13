// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/page_mover.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

constexpr KvLayout kLayout{.num_layers = 3, .num_pages = 4, .num_kv_heads = 2, .head_dim = 8,
                           .type = DataType::kF32};
constexpr std::size_t kPartBytes = kv_page_bytes(kLayout);
constexpr std::size_t kPageBytes = kLayout.num_layers * kPartBytes;

// A pool whose pages are filled with a value of their own in each layer.
struct Pool {
  std::vector<std::byte> bytes = std::vector<std::byte>(kv_pool_bytes(kLayout));
  std::shared_ptr<HostPages> host = std::make_shared<HostPages>(3, kPageBytes);
  PageMover mover{kLayout, bytes.data(), host};

  std::byte* part(std::size_t layer, PageId page) {
    return bytes.data() + kv_block_offset(kLayout, layer, page, 0);
  }
  void fill(PageId page, int value) {
    for (std::size_t layer = 0; layer < kLayout.num_layers; ++layer)
      std::fill_n(part(layer, page), kPartBytes, static_cast<std::byte>(value + layer));
  }
  bool holds(PageId page, int value) {
    for (std::size_t layer = 0; layer < kLayout.num_layers; ++layer)
      if (!std::all_of(part(layer, page), part(layer, page) + kPartBytes,
                       [&](std::byte b) { return b == static_cast<std::byte>(value + layer); }))
        return false;
    return true;
  }
  std::vector<bool> void_slices(std::uint32_t context_length, std::vector<PageId> pages) {
    Batch batch;
    SequenceSlice slice;
    slice.num_tokens = static_cast<std::uint32_t>(pages.size() * kKvPageTokens) - context_length;
    slice.context_length = context_length;
    slice.num_pages = static_cast<std::uint32_t>(pages.size());
    batch.slices = {slice};
    batch.page_table = std::move(pages);
    return mover.find_void_slices(batch);
  }
};

PageMove store(PageId page, std::uint32_t host_page, std::uint64_t generation) {
  return {.to_host = true, .device_page = page, .host_page = host_page, .generation = generation};
}
PageMove load(PageId page, std::uint32_t host_page, std::uint64_t generation) {
  return {.to_host = false, .device_page = page, .host_page = host_page,
          .generation = generation};
}

TEST_CASE("page mover: a page goes to the host and comes back elsewhere, all layers of it") {
  Pool pool;
  pool.fill(1, 10);
  pool.fill(2, 50);
  CHECK(pool.mover.move({store(1, 0, 9), load(3, 0, 9)}).empty());
  CHECK(pool.holds(3, 10));
  CHECK(pool.holds(2, 50));
}

TEST_CASE("page mover: moves are done in order") {
  Pool pool;
  pool.fill(0, 10);
  pool.fill(1, 20);
  // Page 0 leaves and its place is taken by what was stored of page 1.
  CHECK(pool.mover.move({store(1, 0, 1), store(0, 1, 2), load(0, 0, 1), load(1, 1, 2)}).empty());
  CHECK(pool.holds(0, 20));
  CHECK(pool.holds(1, 10));
}

TEST_CASE("page mover: contents that are not there void the page and those who read it") {
  Pool pool;
  pool.fill(0, 10);
  REQUIRE(pool.mover.move({store(0, 0, 1)}).empty());
  CHECK(pool.void_slices(32, {0, 1}).empty());
  CHECK(pool.mover.move({load(2, 0, 5)}) == std::vector<std::uint64_t>{5});
  CHECK(pool.void_slices(32, {2, 1}) == std::vector<bool>{true});
  CHECK(pool.void_slices(32, {1, 3}) == std::vector<bool>{true});  // 1 was computed from it
  CHECK(pool.void_slices(32, {0, 3}) == std::vector<bool>{false});
}

TEST_CASE("page mover: a page written anew from its beginning is void no more") {
  Pool pool;
  REQUIRE(pool.mover.move({load(2, 0, 5)}).size() == 1);
  CHECK(pool.void_slices(0, {2}) == std::vector<bool>{false});
  CHECK(pool.void_slices(32, {2, 1}).empty());
}

TEST_CASE("page mover: a void page is not stored as if it were whole") {
  Pool pool;
  REQUIRE(pool.mover.move({load(2, 0, 5)}).size() == 1);
  CHECK(pool.mover.move({store(2, 1, 6), load(3, 1, 6)}) == std::vector<std::uint64_t>{6});
}

TEST_CASE("page mover: moves to nowhere and pages of another size are refused") {
  Pool pool;
  CHECK_THROWS_AS(pool.mover.move({store(4, 0, 1)}), std::runtime_error);
  CHECK_THROWS_AS(pool.mover.move({load(0, 3, 1)}), std::runtime_error);
  CHECK_THROWS_AS(PageMover(kLayout, pool.bytes.data(), std::make_shared<HostPages>(1, 64)),
                  std::runtime_error);
}

}  // namespace
}  // namespace troupe
