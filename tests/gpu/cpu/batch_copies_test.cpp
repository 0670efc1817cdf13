// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/batch_copies.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>

#include "tests/gpu/page_copies.hpp"

namespace troupe {

TEST_CASE("batch copies: a layer is waited for until it has come, not longer") {
  BatchCopies copies({{.by_layer = {load(1, 0, 1)}, .afterwards = {}}}, 3, 0);
  std::vector<std::size_t> seen;
  std::thread executor([&] {
    for (std::size_t layer = 0; layer < 3; ++layer) {
      copies.wait_for_layer(layer);
      seen.push_back(layer);
    }
    CHECK(copies.wait_for_all() == std::vector<std::uint64_t>{8});
  });
  for (std::size_t count = 1; count <= 3; ++count) copies.layers_have_arrived(count);
  copies.finish({8});
  executor.join();
  CHECK(seen == std::vector<std::size_t>{0, 1, 2});
  // The second of three layers has come: nobody waits for the third.
  BatchCopies other({{.by_layer = {load(1, 0, 1)}, .afterwards = {}}}, 3, 0);
  other.layers_have_arrived(2);
  other.wait_for_layer(1);
}

TEST_CASE("batch copies: no layer waits for stores that come afterwards") {
  const BatchCopies copies({{.by_layer = {}, .afterwards = {store(1, 0, 1)}}}, 3, 0);
  copies.wait_for_layer(2);
}

TEST_CASE("batch copies: who waits for copies that fail is told why") {
  BatchCopies copies({{.by_layer = {load(1, 0, 1)}, .afterwards = {}}}, 3, 0);
  copies.layers_have_arrived(1);
  copies.fail("no such page");
  CHECK_THROWS_WITH_AS(copies.wait_for_layer(2), "no such page", std::runtime_error);
  CHECK_THROWS_WITH_AS(copies.wait_for_all(), "no such page", std::runtime_error);
  copies.wait_for_end();
}

}  // namespace troupe
