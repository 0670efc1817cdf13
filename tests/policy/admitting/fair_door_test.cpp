// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/fair_door.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

namespace troupe {
namespace {

TEST_CASE("fair door: a flow alone may fill it and is refused then") {
  FairDoor door(3);
  for (int i = 0; i < 3; ++i) CHECK(door.enter("a"));
  CHECK_FALSE(door.enter("a"));
  door.leave("a");
  CHECK(door.enter("a"));
}

TEST_CASE("fair door: one that another flow has filled lets in its share of a newcomer") {
  FairDoor door(4);
  for (int i = 0; i < 4; ++i) CHECK(door.enter("a"));
  CHECK(door.enter("b"));
  CHECK(door.enter("b"));
  CHECK_FALSE(door.enter("b"));
  CHECK_FALSE(door.enter("a"));
  CHECK(door.num_inside() == 6);
}

TEST_CASE("fair door: what counts as several finds room for all of it") {
  FairDoor door(32);
  CHECK(door.enter("a", 16));
  CHECK(door.enter("a", 15));
  CHECK_FALSE(door.enter("a", 2));
  CHECK(door.enter("a"));
  CHECK(door.enter("b", 16));
  CHECK_FALSE(door.enter("b"));
  CHECK_FALSE(door.enter("c", 16));  // of 32 for three
  CHECK(door.enter("c", 10));
  door.leave("a", 16);
  CHECK(door.num_inside() == 42);
  door.leave("b", 16);
  door.leave("c", 10);
  CHECK(door.enter("a", 16));
}

TEST_CASE("fair door: in random traffic shares are kept, counts are right and memory is bounded") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::uint32_t limit = 1 + random() % 30;
    const std::uint64_t num_names = 1 + random() % 12;
    FairDoor door(limit);
    std::map<std::string, std::uint32_t> inside;
    std::uint64_t total = 0;
    for (int i = 0; i < 500; ++i) {
      const std::string name(1, static_cast<char>('a' + random() % num_names));
      const std::uint32_t own = inside.contains(name) ? inside[name] : 0;
      if (random() % 4 == 0) {
        if (own == 0) continue;
        door.leave(name);
        if (--inside[name] == 0) inside.erase(name);
        total -= 1;
      } else {
        const std::size_t num_flows = inside.size() + (own == 0 ? 1 : 0);
        const bool is_let_in = door.enter(name);
        if (total < limit || (own + 1) * num_flows <= limit) REQUIRE(is_let_in);
        if (is_let_in) {
          inside[name] += 1;
          total += 1;
        }
      }
      REQUIRE(door.num_inside() == total);
      REQUIRE(static_cast<double>(total) <= limit * (1 + std::log(num_names + 1)));
    }
  }
}

}  // namespace
}  // namespace troupe
