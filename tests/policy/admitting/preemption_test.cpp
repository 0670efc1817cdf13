// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/preemption.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace troupe {
namespace {

using Candidates = std::vector<PreemptionCandidate>;

// Every order of the arrivals 1..n and every choice of who has progressed.
template <class Visit>
void for_each_running(std::size_t num_running, Visit visit) {
  std::vector<std::uint64_t> arrivals;
  for (std::size_t i = 0; i < num_running; ++i) arrivals.push_back(i + 1);
  do {
    for (unsigned progressed = 0; progressed < 1u << num_running; ++progressed) {
      Candidates running;
      for (std::size_t i = 0; i < num_running; ++i)
        running.push_back({.arrival = arrivals[i], .has_progressed = (progressed >> i & 1) != 0});
      visit(running);
    }
  } while (std::next_permutation(arrivals.begin(), arrivals.end()));
}

bool may_be_preempted(const PreemptionCandidate& candidate, std::uint64_t needy_arrival) {
  return candidate.has_progressed && candidate.arrival >= needy_arrival && candidate.arrival != 1;
}

TEST_CASE("preemption: the sequence that arrived last gives up its pages") {
  const Candidates running{{.arrival = 4}, {.arrival = 9}, {.arrival = 6}};
  CHECK(choose_victim(running, 4) == 1);
  CHECK(choose_victim(running, 6) == 1);
}

TEST_CASE("preemption: the needy that arrived last gives up its own") {
  const Candidates running{{.arrival = 4}, {.arrival = 6}};
  CHECK(choose_victim(running, 6) == 1);
}

TEST_CASE("preemption: one without a token since it was preempted is left alone") {
  const Candidates running{{.arrival = 4}, {.arrival = 6}, {.arrival = 9, .has_progressed = false}};
  CHECK(choose_victim(running, 4) == 1);
}

TEST_CASE("preemption: nobody gives way to one that arrived later") {
  const Candidates running{{.arrival = 4}, {.arrival = 6}, {.arrival = 9, .has_progressed = false}};
  CHECK_FALSE(choose_victim(running, 9).has_value());
}

TEST_CASE("preemption: the first to arrive keeps its pages, alone or not") {
  CHECK_FALSE(choose_victim(Candidates{{.arrival = 4}}, 4).has_value());
  CHECK_FALSE(
      choose_victim(Candidates{{.arrival = 4}, {.arrival = 6, .has_progressed = false}}, 4).has_value());
}

TEST_CASE("preemption: where nobody runs there is no victim") {
  CHECK_FALSE(choose_victim({}, 1).has_value());
}

TEST_CASE("preemption: the victim is the last of those who may be, whoever runs") {
  for (std::size_t num_running = 1; num_running <= 5; ++num_running)
    for_each_running(num_running, [&](const Candidates& running) {
      for (std::uint64_t needy = 1; needy <= num_running; ++needy) {
        const auto victim = choose_victim(running, needy);
        const auto num_eligible = std::count_if(running.begin(), running.end(), [&](const auto& candidate) {
          return may_be_preempted(candidate, needy);
        });
        REQUIRE(victim.has_value() == (num_eligible > 0));
        if (!victim) continue;
        REQUIRE(may_be_preempted(running[*victim], needy));
        for (const auto& candidate : running)
          if (candidate.arrival > running[*victim].arrival) REQUIRE_FALSE(may_be_preempted(candidate, needy));
      }
    });
}

TEST_CASE("preemption: without new tokens everybody but the first is preempted once at most") {
  for (std::size_t num_running = 1; num_running <= 5; ++num_running)
    for_each_running(num_running, [&](Candidates running) {
      std::size_t num_preempted = 0;
      while (const auto victim = choose_victim(running, 1)) {
        running[*victim].has_progressed = false;
        num_preempted += 1;
        REQUIRE(num_preempted < num_running);
      }
    });
}

TEST_CASE("preemption: the flow that holds most pages gives, not the newcomer of another one") {
  const Candidates running{{.arrival = 1, .flow = 1, .num_pages = 40},
                           {.arrival = 2, .flow = 1, .num_pages = 50},
                           {.arrival = 9, .flow = 2, .num_pages = 10}};
  CHECK(choose_victim(running, 1) == 1);
  CHECK(choose_victim(running, 2) == 1);
  CHECK(choose_victim(running, 9) == 1);
}

TEST_CASE("preemption: even the first to arrive gives, if it alone has more than its flow's share") {
  const Candidates running{{.arrival = 1, .flow = 1, .num_pages = 90},
                           {.arrival = 2, .flow = 2, .num_pages = 10}};
  CHECK(choose_victim(running, 2) == 0);
  CHECK(choose_victim(running, 1) == 0);
}

TEST_CASE("preemption: where the largest flow has not got on, or all have the same, the last gives") {
  Candidates running{{.arrival = 1, .flow = 1, .num_pages = 90}, {.arrival = 2, .flow = 2, .num_pages = 10}};
  running[0].has_progressed = false;
  CHECK(choose_victim(running, 1) == 1);
  running[0] = {.arrival = 1, .flow = 1, .num_pages = 10};
  CHECK(choose_victim(running, 1) == 1);
}

// Flows, pages and progress at random: as long as one has got on, one of them gives.
TEST_CASE("preemption: with several flows it is the largest that gives, whoever is in need") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Candidates running;
    std::map<std::uint64_t, std::uint64_t> held;
    std::uint64_t num_held = 0;
    for (std::uint64_t i = 0, end = 1 + random() % 6; i < end; ++i) {
      running.push_back({.arrival = i + 1,
                         .has_progressed = random() % 4 > 0,
                         .flow = random() % 3,
                         .num_pages = static_cast<std::uint32_t>(1 + random() % 20)});
      held[running.back().flow] += running.back().num_pages;
      num_held += running.back().num_pages;
    }
    const auto& needy = running[random() % running.size()];
    const auto victim = choose_victim(running, needy.arrival);
    if (victim) REQUIRE(running[*victim].has_progressed);
    for (const auto& [flow, num_pages] : held) {
      if (held.size() < 2 || num_pages * held.size() <= num_held) continue;
      bool is_largest = true;
      for (const auto& [other, num_others] : held)
        is_largest = is_largest && (num_others < num_pages || (num_others == num_pages && other >= flow));
      if (!is_largest || flow == needy.flow) continue;
      const bool has_one = std::any_of(running.begin(), running.end(), [&](const auto& candidate) {
        return candidate.flow == flow && candidate.has_progressed;
      });
      if (has_one) REQUIRE(running[*victim].flow == flow);
    }
  }
}

}  // namespace
}  // namespace troupe
