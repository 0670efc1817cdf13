// SPDX-License-Identifier: Apache-2.0
#include "policy/preemption.hpp"

#include <doctest/doctest.h>

#include <algorithm>
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

}  // namespace
}  // namespace troupe
