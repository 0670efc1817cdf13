// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/page_copier.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/gpu/page_copies.hpp"

namespace troupe {
namespace {

std::vector<bool> void_slices(SmallPool& pool, std::uint32_t context_length, std::vector<PageId> pages) {
  Batch batch;
  SequenceSlice slice;
  slice.num_tokens = static_cast<std::uint32_t>(pages.size() * kKvPageTokens) - context_length;
  slice.context_length = context_length;
  slice.num_pages = static_cast<std::uint32_t>(pages.size());
  batch.slices = {slice};
  batch.page_table = std::move(pages);
  return pool.copier.find_void_slices(batch);
}

}  // namespace

TEST_CASE("page copier: a page goes to the host and comes back elsewhere, all layers of it") {
  SmallPool pool;
  pool.fill(1, 10);
  pool.fill(2, 50);
  CHECK(pool.move_in_order({store(1, 0, 9), load(3, 0, 9)}).empty());
  CHECK(pool.holds(3, 10));
  CHECK(pool.holds(2, 50));
}

TEST_CASE("page copier: moves are done in order") {
  SmallPool pool;
  pool.fill(0, 10);
  pool.fill(1, 20);
  // Page 0 leaves and its place is taken by what was stored of page 1.
  CHECK(pool.move_in_order({store(1, 0, 1), store(0, 1, 2), load(0, 0, 1), load(1, 1, 2)}).empty());
  CHECK(pool.holds(0, 20));
  CHECK(pool.holds(1, 10));
}

TEST_CASE("page copier: contents that are not there void the page and those who read it") {
  SmallPool pool;
  pool.fill(0, 10);
  REQUIRE(pool.move_in_order({store(0, 0, 1)}).empty());
  CHECK(void_slices(pool, 32, {0, 1}).empty());
  CHECK(pool.move_in_order({load(2, 0, 5)}) == std::vector<std::uint64_t>{5});
  CHECK(void_slices(pool, 32, {2, 1}) == std::vector<bool>{true});
  CHECK(void_slices(pool, 32, {1, 3}) == std::vector<bool>{true});  // 1 was computed from it
  CHECK(void_slices(pool, 32, {0, 3}) == std::vector<bool>{false});
}

TEST_CASE("page copier: a page is copied within the pool, and is void if what it comes from is") {
  SmallPool pool;
  pool.fill(0, 10);
  CHECK(pool.move_in_order({within(1, 0), within(2, 1), store(2, 0, 1), load(3, 0, 1)}).empty());
  CHECK(pool.holds(3, 10));
  REQUIRE(pool.move_in_order({load(4, 1, 5), within(5, 4)}).size() == 1);
  CHECK(void_slices(pool, 32, {5, 0}) == std::vector<bool>{true});
  REQUIRE(pool.move_in_order({within(4, 3), within(5, 4)}).empty());
  CHECK(void_slices(pool, 31, {5}) == std::vector<bool>{false});
}

TEST_CASE("page copier: without a host tier pages are copied within the pool") {
  SmallPool pool;
  PageCopier copier(kSmallLayout, kSmallLayout.num_pages, pool.bytes.data(), nullptr);
  CHECK_NOTHROW(copier.check({within(1, 0)}));
  CHECK_THROWS_AS(copier.check({store(1, 0, 1)}), std::runtime_error);
  CHECK_THROWS_AS(copier.check({within(1, 6)}), std::runtime_error);
  CHECK_THROWS_AS(copier.check({within(6, 1)}), std::runtime_error);
}

TEST_CASE("page copier: pages of the layout beyond those that there are for batches are refused") {
  SmallPool pool;
  PageCopier copier(kSmallLayout, 5, pool.bytes.data(), pool.host);
  CHECK(copier.num_pages() == 5);
  CHECK_NOTHROW(copier.check({store(4, 0, 1), within(4, 0)}));
  CHECK_THROWS_AS(copier.check({store(5, 0, 1)}), std::runtime_error);
  CHECK_THROWS_AS(copier.check({within(0, 5)}), std::runtime_error);
}

TEST_CASE("page copier: a page written anew from its beginning is void no more") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({load(2, 0, 5)}).size() == 1);
  CHECK(void_slices(pool, 0, {2}) == std::vector<bool>{false});
  CHECK(void_slices(pool, 32, {2, 1}).empty());
}

TEST_CASE("page copier: a void page is not stored as if it were whole") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({load(2, 0, 5)}).size() == 1);
  CHECK(pool.move_in_order({store(2, 1, 6), load(3, 1, 6)}) == std::vector<std::uint64_t>{6});
}

TEST_CASE("page copier: damage in the last layer voids the page like any other") {
  SmallPool pool;
  pool.fill(0, 10);
  REQUIRE(pool.move_in_order({store(0, 0, 1)}).empty());
  flip_bit(*pool.host, 0, 1, kSmallPageBytes - 1);
  CHECK(pool.move_in_order({load(1, 0, 1)}) == std::vector<std::uint64_t>{1});
  CHECK(void_slices(pool, 32, {1, 2}) == std::vector<bool>{true});
}

TEST_CASE("page copier: a store given up half-way leaves nothing on the host") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 1)}).empty());
  LayeredCopy(pool.copier, store(1, 0, 2)).copy_layer(0);
  CHECK(pool.host->load(0, 1).empty());
  CHECK(pool.host->load(0, 2).empty());
}

TEST_CASE("page copier: moves to nowhere and pages of another size are refused") {
  SmallPool pool;
  CHECK_THROWS_AS(pool.move_in_order({store(6, 0, 1)}), std::runtime_error);
  CHECK_THROWS_AS(pool.move_in_order({load(0, 4, 1)}), std::runtime_error);
  CHECK_THROWS_AS(
      PageCopier(kSmallLayout, kSmallLayout.num_pages, pool.bytes.data(), std::make_shared<HostPages>(1, 64)),
      std::runtime_error);
}

}  // namespace troupe
