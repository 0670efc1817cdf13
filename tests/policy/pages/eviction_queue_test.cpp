// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/eviction_queue.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace troupe {
namespace {

using TimePoint = EvictionEntry::TimePoint;
using std::chrono::seconds;

TimePoint at(int second) { return TimePoint{seconds(second)}; }

TEST_CASE("eviction queue: the lowest of those that may go is found behind those that may not") {
  for (const auto policy : {EvictionPolicy::kValue, EvictionPolicy::kLru}) {
    EvictionQueue queue({.cache_policy = policy});
    const EvictionQueue::TimePoint begin{};
    for (std::uint32_t id = 0; id < 60; ++id)
      queue.insert({.id = id,
                    .worth = 1.0 + id % 3,
                    .depth = id % 5,
                    .last_used = begin + std::chrono::seconds(id * 7 % 60)});
    const auto now = begin + std::chrono::seconds(100);
    const auto may_go = [](std::uint32_t id) { return id % 4 == 1; };
    const auto found = queue.lowest(now, may_go);
    CHECK_FALSE(queue.lowest(now, [](std::uint32_t) { return false; }).has_value());
    for (std::uint32_t id = 0; id < 60; ++id)
      if (!may_go(id)) queue.erase(id);
    CHECK(found == queue.lowest(now));
  }
}

TEST_CASE("eviction queue: an empty one has nothing to give") {
  CHECK(!EvictionQueue({.cache_policy = EvictionPolicy::kValue}).lowest(at(1)).has_value());
}

TEST_CASE("eviction queue: by value, what is cheap goes before what is dear and as old") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kValue});
  queue.insert({.id = 1, .worth = 5.0, .last_used = at(0)});
  queue.insert({.id = 2, .worth = 2.0, .last_used = at(0)});
  CHECK(queue.lowest(at(10)) == 2U);
}

TEST_CASE("eviction queue: by value, age outweighs worth in time") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kValue});
  queue.insert({.id = 1, .worth = 4.0, .last_used = at(0)});
  queue.insert({.id = 2, .worth = 1.0, .last_used = at(9)});
  CHECK(queue.lowest(at(10)) == 1U);   // 0.13 against 1
  CHECK(queue.lowest(at(100)) == 2U);  // 0.0040 against 0.0012
}

TEST_CASE("eviction queue: by value, the exponent says how much age counts") {
  // Worth 4 at 100 s against worth 1 at 45 s: in proportion 0.04 to 0.022, squared 0.0004 to 0.0005.
  for (const auto& [exponent, first_to_go] : {std::pair{1.0, 2U}, {1.5, 2U}, {2.0, 1U}, {0.0, 2U}}) {
    EvictionQueue queue({.cache_policy = EvictionPolicy::kValue, .age_exponent = exponent});
    queue.insert({.id = 1, .worth = 4.0, .last_used = at(0)});
    queue.insert({.id = 2, .worth = 1.0, .last_used = at(55)});
    CHECK(queue.lowest(at(100)) == first_to_go);
    CHECK(queue.value(1, at(100)) == doctest::Approx(4.0 / std::pow(100.0, exponent)));
  }
}

TEST_CASE("eviction queue: by value, the first page of a sequence goes first") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kValue});
  queue.insert({.id = 7, .worth = 1.0, .depth = 1, .last_used = at(0)});
  queue.insert({.id = 8, .worth = 1.0, .depth = 0, .last_used = at(0)});
  CHECK(queue.lowest(at(1)) == 8U);
}

TEST_CASE("eviction queue: by time, worth counts for nothing and the last page goes first") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kLru});
  queue.insert({.id = 1, .worth = 0.1, .depth = 0, .last_used = at(5)});
  queue.insert({.id = 2, .worth = 900, .depth = 0, .last_used = at(0)});
  queue.insert({.id = 3, .worth = 900, .depth = 1, .last_used = at(0)});
  CHECK(queue.lowest(at(6)) == 3U);
  queue.erase(3);
  CHECK(queue.lowest(at(6)) == 2U);
}

TEST_CASE(
    "eviction queue: by value, a page that gets dearer goes later, one as dear as before as it would have") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kValue});
  queue.insert({.id = 1, .worth = 1.0, .last_used = at(0)});
  queue.insert({.id = 2, .worth = 2.0, .last_used = at(0)});
  queue.change_worth(1, 1.0);
  CHECK(queue.lowest(at(10)) == 1U);
  queue.change_worth(1, 4.0);
  CHECK(queue.lowest(at(10)) == 2U);
  CHECK(queue.size() == 2);
}

TEST_CASE("eviction queue: by time, a change of worth changes nothing") {
  EvictionQueue queue({.cache_policy = EvictionPolicy::kLru});
  queue.insert({.id = 1, .worth = 1.0, .last_used = at(0)});
  queue.insert({.id = 2, .worth = 1.0, .last_used = at(1)});
  queue.change_worth(1, 100.0);
  CHECK(queue.lowest(at(10)) == 1U);
  CHECK(queue.value(1, at(10)) == doctest::Approx(0.1));
}

TEST_CASE("eviction queue: against looking at every page, values agree within a lane's width") {
  std::mt19937_64 random(11);
  const double lane_width = std::exp2(1.0 / 16.0);
  EvictionQueue queue({.cache_policy = EvictionPolicy::kValue});
  std::vector<EvictionEntry> entries;
  for (int step = 0; step < 20000; ++step) {
    const TimePoint now = at(step);
    if (entries.size() < 200 && random() % 3 != 0) {
      EvictionEntry entry{.id = static_cast<std::uint32_t>(step),
                          .worth = std::exp2(static_cast<double>(random() % 1000) / 100.0),
                          .depth = static_cast<std::uint32_t>(random() % 30),
                          .last_used = at(static_cast<int>(random() % (step + 1)))};
      entries.push_back(entry);
      queue.insert(entry);
    } else if (!entries.empty() && random() % 2 == 0) {
      EvictionEntry& entry = entries[random() % entries.size()];
      entry.worth *= random() % 2 == 0 ? 1.01 : std::exp2(static_cast<double>(random() % 9) - 4.0);
      queue.change_worth(entry.id, entry.worth);
    } else if (!entries.empty()) {
      const std::size_t index = random() % entries.size();
      queue.erase(entries[index].id);
      entries[index] = entries.back();
      entries.pop_back();
    }
    REQUIRE(queue.size() == entries.size());
    if (entries.empty()) continue;
    double lowest = HUGE_VAL;
    for (const auto& entry : entries) {
      const double age = std::max(1e-9, std::chrono::duration<double>(now - entry.last_used).count());
      const double value = entry.worth / std::pow(age, 1.5);
      REQUIRE(queue.value(entry.id, now) == doctest::Approx(value));
      lowest = std::min(lowest, value);
    }
    const double chosen = queue.value(*queue.lowest(now), now);
    REQUIRE(chosen <= lowest * lane_width * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace troupe
