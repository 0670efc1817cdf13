// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/byte_budget.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

using troupe::cuda::ByteBudget;

TEST_CASE("byte budget: shares together are at most the budget") {
  ByteBudget budget(100);
  {
    const auto first = budget.take(60);
    CHECK(!budget.try_take(41));
    const auto second = budget.try_take(40);
    CHECK(second);
    CHECK(!budget.try_take(1));
  }
  CHECK(budget.try_take(100));
}

TEST_CASE("byte budget: more than the budget is given to one that is alone") {
  ByteBudget budget(100);
  const auto large = budget.try_take(1000);
  CHECK(large);
  CHECK(!budget.try_take(1));
  ByteBudget other(100);
  const auto small = other.take(1);
  CHECK(!other.try_take(1000));
}

TEST_CASE("byte budget: a share that was moved gives its bytes back once") {
  ByteBudget budget(100);
  {
    auto first = budget.take(100);
    const auto second = std::move(first);
    CHECK(second);
  }
  const auto again = budget.take(100);
  CHECK(!budget.try_take(1));
}

TEST_CASE("byte budget: threads that wait for their shares all get them") {
  ByteBudget budget(100);
  std::atomic<int> held = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const auto share = budget.take(40);
        const int now = ++held;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        --held;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(most <= 2);
}
