// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/fair_door.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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
    std::map<std::string, std::vector<std::uint32_t>> inside;  // weights
    std::uint64_t total = 0;
    for (int i = 0; i < 500; ++i) {
      const std::string name(1, static_cast<char>('a' + random() % num_names));
      const auto found = inside.find(name);
      const bool is_there = found != inside.end();
      if (random() % 4 == 0) {
        if (!is_there) continue;
        const std::uint32_t weight = found->second.back();
        door.leave(name, weight);
        found->second.pop_back();
        if (found->second.empty()) inside.erase(found);
        total -= weight;
      } else {
        const std::uint32_t weight = seed % 2 == 0 ? 1 : 1 + random() % 16;
        const std::uint32_t own =
            is_there ? std::accumulate(found->second.begin(), found->second.end(), std::uint32_t{0}) : 0;
        const std::size_t num_flows = inside.size() + (is_there ? 0 : 1);
        const bool has_room = total + weight <= limit || (own + weight) * num_flows <= limit;
        REQUIRE(door.enter(name, weight) == has_room);
        if (has_room) {
          inside[name].push_back(weight);
          total += weight;
        }
      }
      REQUIRE(door.num_inside() == total);
      REQUIRE(static_cast<double>(total) <= limit * (1 + std::log(num_names + 1)));
    }
  }
}

}  // namespace
}  // namespace troupe
