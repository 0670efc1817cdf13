// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/yielding.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

namespace troupe {
namespace {

using Holdings = std::vector<Holding>;

// So many sequences of a flow, one slot each, that have all got on.
void add(Holdings& running, std::uint64_t flow, int num_sequences, std::uint64_t served = 0) {
  for (int i = 0; i < num_sequences; ++i)
    running.push_back({.flow = flow,
                       .arrival = running.size() + 1,
                       .num_held = 1,
                       .num_progressed = kLeastProgress,
                       .served = served});
}

Claim slot_for(std::uint64_t flow, std::uint32_t capacity, std::uint32_t num_flows) {
  return {.flow = flow, .num_needed = 1, .served = 0, .capacity = capacity, .num_flows = num_flows};
}

TEST_CASE("yielding: of the flow that has all the slots the last to arrive gives way") {
  Holdings running;
  add(running, 1, 4);
  CHECK(choose_yielding(running, slot_for(2, 4, 2)) == 3);
}

TEST_CASE("yielding: a flow alone yields to nothing, its own requests least of all") {
  Holdings running;
  add(running, 1, 4);
  CHECK_FALSE(choose_yielding(running, slot_for(1, 4, 1)).has_value());
  CHECK_FALSE(choose_yielding(running, slot_for(1, 4, 2)).has_value());
}

TEST_CASE("yielding: a flow that has its share waits for what is given up") {
  Holdings running;
  add(running, 1, 2);
  add(running, 2, 2);
  CHECK_FALSE(choose_yielding(running, slot_for(2, 4, 2)).has_value());
  CHECK_FALSE(choose_yielding(running, slot_for(1, 4, 2)).has_value());
}

TEST_CASE("yielding: what has just begun is left alone, whatever its flow has") {
  Holdings running;
  add(running, 1, 4);
  running[3].num_progressed = kLeastProgress - 1;
  CHECK(choose_yielding(running, slot_for(2, 4, 2)) == 2);
  for (Holding& holding : running) holding.num_progressed = 0;
  CHECK_FALSE(choose_yielding(running, slot_for(2, 4, 2)).has_value());
}

TEST_CASE("yielding: the flow that has most gives first") {
  Holdings running;
  add(running, 1, 3);
  add(running, 2, 5);
  CHECK(choose_yielding(running, slot_for(3, 8, 4)) == 7);
}

TEST_CASE("yielding: pages are shared as slots are") {
  Holdings running;
  add(running, 1, 2);
  running[0].num_held = 10;
  running[1].num_held = 80;
  add(running, 2, 1);
  running[2].num_held = 10;
  Claim claim{.flow = 2, .num_needed = 40, .capacity = 100, .num_flows = 2};
  CHECK(choose_yielding(running, claim) == 1);
  claim.num_needed = 41;  // more than its share
  CHECK_FALSE(choose_yielding(running, claim).has_value());
}

TEST_CASE("yielding: more flows than slots take turns, each long enough") {
  Holdings running;
  add(running, 1, 1, kTurn - 1);
  CHECK_FALSE(choose_yielding(running, slot_for(2, 1, 2)).has_value());
  running[0].served = kTurn;
  CHECK(choose_yielding(running, slot_for(2, 1, 2)) == 0);
  running[0].num_progressed = 0;
  CHECK_FALSE(choose_yielding(running, slot_for(2, 1, 2)).has_value());
}

TEST_CASE("yielding: enough slots for all flows are not given away by turns") {
  Holdings running;
  add(running, 1, 2, 1'000'000);
  CHECK_FALSE(choose_yielding(running, slot_for(3, 4, 2)).has_value());
}

// Every set of slots of up to three flows.
template <class Visit>
void for_each_holding(Visit visit) {
  for (int capacity = 1; capacity <= 8; ++capacity)
    for (int a = 0; a <= capacity; ++a)
      for (int b = 0; a + b <= capacity; ++b) {
        Holdings running;
        add(running, 1, a);
        add(running, 2, b);
        add(running, 3, capacity - a - b);
        visit(running, static_cast<std::uint32_t>(capacity));
      }
}

TEST_CASE("yielding: only those above their share yield, to those below it, and stay at it or above") {
  for_each_holding([](const Holdings& running, std::uint32_t capacity) {
    std::map<std::uint64_t, std::uint32_t> held;
    for (const Holding& holding : running) held[holding.flow] += 1;
    const std::uint32_t share = std::max(1U, capacity / 3);
    for (std::uint64_t flow = 1; flow <= 3; ++flow) {
      const auto yielding = choose_yielding(running, slot_for(flow, capacity, 3));
      bool is_any_above = false;
      for (const auto& [other, num_held] : held)
        is_any_above = is_any_above || (other != flow && num_held > share);
      REQUIRE(yielding.has_value() == (held[flow] < share && is_any_above));
      if (!yielding) continue;
      REQUIRE(running[*yielding].flow != flow);
      REQUIRE(held[running[*yielding].flow] - 1 >= share);
      REQUIRE(held[flow] + 1 <= share);
    }
  });
}

TEST_CASE("yielding: however many wait, slots change hands fewer times than there are slots") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto capacity = static_cast<std::uint32_t>(1 + random() % 32);
    const auto num_flows = static_cast<std::uint32_t>(2 + random() % 6);
    Holdings running;
    for (std::uint32_t i = 0; i < capacity; ++i) add(running, 1 + random() % num_flows, 1);
    std::uint32_t num_yielded = 0;
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t flow = 1 + random() % num_flows;
      const auto yielding = choose_yielding(running, slot_for(flow, capacity, num_flows));
      if (!yielding) continue;
      running[*yielding].flow = flow;  // and has got on at once: nothing but the shares holds it
      num_yielded += 1;
    }
    REQUIRE(num_yielded < capacity);
    std::map<std::uint64_t, std::uint32_t> held;
    for (const Holding& holding : running) held[holding.flow] += 1;
    const std::uint32_t share = std::max(1U, capacity / num_flows);
    bool is_any_above = false;
    for (const auto& [flow, num_held] : held) is_any_above = is_any_above || num_held > share;
    if (is_any_above)
      for (std::uint64_t flow = 1; flow <= num_flows; ++flow) REQUIRE(held[flow] >= share);
  }
}

}  // namespace
}  // namespace troupe
