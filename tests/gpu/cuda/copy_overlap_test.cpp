// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/pages/copy_overlap.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <set>

using namespace troupe;

namespace {

PageCopy store(std::uint32_t device_page, std::uint32_t host_page) {
  return {.direction = PageCopy::kStore, .device_page = device_page, .host_page = host_page};
}
PageCopy load(std::uint32_t device_page, std::uint32_t host_page) {
  return {.device_page = device_page, .host_page = host_page};
}

PageCopy within(std::uint32_t device_page, std::uint32_t from_page) {
  return {.direction = PageCopy::kWithin, .device_page = device_page, .from_page = from_page};
}

}  // namespace

TEST_CASE("copy overlap: lists share a page on the device or on the host, in either direction") {
  CHECK(cuda::share_page({store(1, 2)}, {load(1, 7)}));
  CHECK(cuda::share_page({store(1, 2)}, {load(7, 2)}));
  CHECK_FALSE(cuda::share_page({store(1, 2)}, {load(2, 1)}));
  CHECK_FALSE(cuda::share_page({}, {load(2, 1)}));
  CHECK(cuda::share_page({within(1, 2)}, {load(2, 7)}));
  CHECK(cuda::share_page({store(2, 7)}, {within(1, 2)}));
  CHECK_FALSE(cuda::share_page({within(1, 2)}, {load(7, 0)}));
}

TEST_CASE("copy overlap: only a store writes a host page") {
  CHECK(cuda::stores_into({load(1, 2), store(3, 4)}, 4));
  CHECK_FALSE(cuda::stores_into({load(1, 2), store(3, 4)}, 2));
}

TEST_CASE("copy overlap: a list is cut where a store would overtake a load of the same page") {
  CHECK(cuda::stores_first({}).empty());
  CHECK(cuda::stores_first({load(1, 2), store(3, 4), load(3, 5)}).size() == 1);
  const auto device = cuda::stores_first({load(1, 2), store(1, 4)});
  REQUIRE(device.size() == 2);
  CHECK(device[1].size() == 1);
  CHECK(cuda::stores_first({load(1, 2), store(3, 2)}).size() == 2);
}

TEST_CASE("copy overlap: copies within the device are in parts of their own") {
  const auto parts = cuda::stores_first({load(1, 2), within(3, 1), within(4, 3), load(3, 2)});
  REQUIRE(parts.size() == 3);
  CHECK(parts[1].size() == 2);
}

TEST_CASE("copy overlap: parts are the list, and in none has a load a page of a later store") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<PageCopy> moves;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const bool is_store = random() % 2 == 0;
      moves.push_back(is_store ? store(random() % 8, random() % 8) : load(random() % 8, random() % 8));
      moves.back().generation = i;
    }
    std::uint64_t next = 0;
    for (const auto& part : cuda::stores_first(moves)) {
      std::set<std::uint32_t> device_pages, host_pages;  // of loads
      for (const PageCopy& move : part) {
        CHECK(move.generation == next++);
        if (move.is_store()) {
          CHECK_FALSE(device_pages.contains(move.device_page));
          CHECK_FALSE(host_pages.contains(move.host_page));
        } else {
          device_pages.insert(move.device_page);
          host_pages.insert(move.host_page);
        }
      }
    }
    CHECK(next == moves.size());
  }
}
