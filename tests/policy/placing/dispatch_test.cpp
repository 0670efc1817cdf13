// SPDX-License-Identifier: Apache-2.0
#include "policy/placing/dispatch.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <stdexcept>
#include <vector>

using namespace troupe;

namespace {

constexpr DispatchKind kKinds[] = {DispatchKind::kRoundRobin, DispatchKind::kLeastWork,
                                   DispatchKind::kShortestQueue, DispatchKind::kPowerOfTwo};

std::vector<WorkerLoad> random_loads(std::mt19937_64& random, std::size_t count) {
  std::vector<WorkerLoad> loads(count);
  for (auto& load : loads)
    load = {.num_waiting = static_cast<std::uint32_t>(random() % 5),
            .num_running = static_cast<std::uint32_t>(random() % 5),
            .outstanding_tokens = random() % 1000};
  return loads;
}

}  // namespace

TEST_CASE("dispatch: names and kinds belong together, unknown names are refused with the known") {
  for (const DispatchKind kind : kKinds) CHECK(dispatch_from_name(name_of(kind)) == kind);
  CHECK_THROWS_WITH_AS(dispatch_from_name("best"),
                       "expected a dispatch policy (round-robin, least-work, shortest-queue, "
                       "power-of-two), got 'best'",
                       std::runtime_error);
}

TEST_CASE("dispatch: round robin gives each worker the same number, whatever their load") {
  std::mt19937_64 random(1);
  const auto policy = make_dispatch_policy(DispatchKind::kRoundRobin, 1);
  std::map<std::size_t, int> given;
  for (int i = 0; i < 70; ++i) given[policy->choose({}, random_loads(random, 7))] += 1;
  CHECK(given.size() == 7);
  for (const auto& [worker, count] : given) CHECK(count == 10);
}

TEST_CASE("dispatch: shortest queue and least work never choose one with more than another") {
  std::mt19937_64 random(2);
  const auto shortest = make_dispatch_policy(DispatchKind::kShortestQueue, 1);
  const auto least = make_dispatch_policy(DispatchKind::kLeastWork, 1);
  for (int i = 0; i < 1000; ++i) {
    const auto loads = random_loads(random, 6);
    const auto queue = loads[shortest->choose({}, loads)].num_requests();
    const auto work = loads[least->choose({}, loads)].outstanding_tokens;
    for (const auto& load : loads) {
      REQUIRE(load.num_requests() >= queue);
      REQUIRE(load.outstanding_tokens >= work);
    }
  }
}

TEST_CASE("dispatch: idle workers take turns") {
  const std::vector<WorkerLoad> loads(5);
  for (const auto kind : {DispatchKind::kShortestQueue, DispatchKind::kLeastWork}) {
    const auto policy = make_dispatch_policy(kind, 1);
    for (std::size_t i = 0; i < 10; ++i) CHECK(policy->choose({}, loads) == i % 5);
  }
}

TEST_CASE("dispatch: power of two never chooses the one longest queue, and reaches all others") {
  const auto policy = make_dispatch_policy(DispatchKind::kPowerOfTwo, 3);
  std::vector<WorkerLoad> loads(4);
  loads[2].num_waiting = 9;
  std::map<std::size_t, int> given;
  for (int i = 0; i < 1000; ++i) given[policy->choose({}, loads)] += 1;
  CHECK(given.size() == 3);
  CHECK(given.count(2) == 0);
}

TEST_CASE("dispatch: a lone worker gets everything") {
  const std::vector<WorkerLoad> loads(1);
  for (const DispatchKind kind : kKinds) CHECK(make_dispatch_policy(kind, 1)->choose({}, loads) == 0);
}
