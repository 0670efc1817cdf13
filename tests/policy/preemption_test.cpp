// SPDX-License-Identifier: Apache-2.0
#include "policy/preemption.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace troupe {
namespace {

using Candidates = std::vector<PreemptionCandidate>;

TEST_CASE("preemption: the latest to arrive gives way, also if it is the needy itself") {
  const Candidates running{{.arrival = 1}, {.arrival = 5}, {.arrival = 3}};
  CHECK(choose_victim(running, 1) == 1);
  CHECK(choose_victim(running, 5) == 1);
}

TEST_CASE("preemption: one that has got nothing since the last time is left alone") {
  const Candidates running{
      {.arrival = 1}, {.arrival = 5, .has_progressed = false}, {.arrival = 3}};
  CHECK(choose_victim(running, 1) == 2);
  CHECK_FALSE(choose_victim(running, 5));
}

TEST_CASE("preemption: the first to arrive is never the victim") {
  CHECK_FALSE(choose_victim(Candidates{{.arrival = 4}}, 4));
  CHECK_FALSE(choose_victim({}, 4));
}

TEST_CASE("preemption: against a plain search") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    Candidates running;
    for (std::uint64_t i = 1 + random() % 8; i > 0; --i)
      running.push_back({.arrival = i * 10, .has_progressed = random() % 3 > 0});
    const std::uint64_t needy = running[random() % running.size()].arrival;
    std::uint64_t expected = 0;
    for (const auto& candidate : running)
      if (candidate.has_progressed && candidate.arrival >= needy && candidate.arrival > 10)
        expected = std::max(expected, candidate.arrival);
    const auto victim = choose_victim(running, needy);
    REQUIRE(victim.has_value() == (expected > 0));
    if (victim) REQUIRE(running[*victim].arrival == expected);
  }
}

}  // namespace
}  // namespace troupe
