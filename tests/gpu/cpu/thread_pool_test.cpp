// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/thread_pool.hpp"

#include <sched.h>

#include <atomic>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE("thread pool: every task runs exactly once, whatever the number") {
  for (const unsigned num_threads : {1U, 2U, 4U}) {
    ThreadPool pool({.num_threads = num_threads});
    for (const std::size_t num_tasks : {0U, 1U, 2U, 3U, 7U, 100U, 5000U}) {
      CAPTURE(num_threads);
      CAPTURE(num_tasks);
      std::vector<std::atomic<int>> runs(num_tasks);
      pool.run(num_tasks, [&](std::size_t task) { runs[task].fetch_add(1); });
      for (const auto& count : runs) CHECK(count.load() == 1);
    }
  }
}

TEST_CASE("thread pool: what tasks wrote is seen after the run") {
  ThreadPool pool({.num_threads = 3});
  std::vector<int> values(64);
  for (int round = 1; round <= 3000; ++round) {
    pool.run(values.size(), [&](std::size_t task) { values[task] += static_cast<int>(task); });
    REQUIRE(values[63] == 63 * round);
  }
  for (int i = 0; i < 64; ++i) CHECK(values[static_cast<std::size_t>(i)] == 3000 * i);
}

TEST_CASE("thread pool: runs of different closures follow each other closely") {
  ThreadPool pool({.num_threads = 4, .spin = std::chrono::microseconds{0}});
  for (std::size_t round = 0; round < 2000; ++round) {
    std::atomic<std::size_t> sum{0};
    const std::size_t num_tasks = 2 + round % 5;
    pool.run(num_tasks, [&](std::size_t task) { sum += task + round; });
    REQUIRE(sum.load() == num_tasks * round + num_tasks * (num_tasks - 1) / 2);
  }
}

TEST_CASE("thread pool: sleeping threads are woken, a pool that never ran ends") {
  { const ThreadPool idle({.num_threads = 4}); }
  ThreadPool pool({.num_threads = 2, .spin = std::chrono::microseconds{0}});
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{3});
    // Both tasks wait for each other, so each thread must take one.
    std::atomic<int> arrived{0};
    pool.run(2, [&](std::size_t) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    CHECK(arrived.load() == 2);
  }
}

// Threads between two runs are anywhere in their loop when they are told to stop. One that missed it
// would wait for ever, and the end of the pool for it: once in some thousand pools, when it did.
TEST_CASE("thread pool: ends right after a run, however far its threads have come") {
  for (int i = 0; i < 1500; ++i) {
    ThreadPool pool({.num_threads = 4, .spin = std::chrono::microseconds{0}});
    std::atomic<int> done{0};
    pool.run(4, [&](std::size_t) { ++done; });
    REQUIRE(done.load() == 4);
  }
}

TEST_CASE("thread pool: one slow task does not hold up the others") {
  ThreadPool pool({.num_threads = 2});
  std::atomic<int> others{0};
  pool.run(50, [&](std::size_t task) {
    if (task == 0) {
      while (others.load() < 49) std::this_thread::yield();
    } else {
      others.fetch_add(1);
    }
  });
  CHECK(others.load() == 49);
}

TEST_CASE("thread pool: an exception arrives at the caller after all tasks have ended") {
  ThreadPool pool({.num_threads = 3});
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ended{0};
    CHECK_THROWS_WITH_AS(pool.run(20,
                                  [&](std::size_t task) {
                                    ended.fetch_add(1);
                                    if (task % 7 == 3) throw std::runtime_error("task failed");
                                  }),
                         "task failed", std::runtime_error);
    CHECK(ended.load() == 20);
    int after = 0;
    pool.run(1, [&](std::size_t) { ++after; });
    CHECK(after == 1);
  }
}

TEST_CASE("thread pool: threads are pinned where asked for") {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) {
    MESSAGE("SKIPPED: one CPU only");
    return;
  }
  ThreadPool pool({.num_threads = 2, .cpus = cpus});
  std::thread caller([&] {
    pool.adopt_caller();
    // Where others disturb the threads, one may be lent the other's core for a run.
    std::set<int> seen;
    for (int run = 0; run < 1000 && seen.size() < 2; ++run) {
      std::atomic<int> arrived{0};
      std::vector<int> cores(2);
      pool.run(2, [&](std::size_t task) {
        arrived.fetch_add(1);
        while (arrived.load() < 2) std::this_thread::yield();
        cores[task] = sched_getcpu();
      });
      seen = {cores.begin(), cores.end()};
    }
    CHECK(seen == std::set<int>(cpus.begin(), cpus.end()));
    pool.release_caller();
  });
  caller.join();
}

TEST_CASE("thread pool: CPUs that are not there are refused") {
  CHECK_THROWS_AS(ThreadPool({.num_threads = 1, .cpus = {-1}}), std::runtime_error);
  CHECK_THROWS_AS(ThreadPool({.num_threads = 1, .cpus = {100'000}}), std::runtime_error);
  CHECK_THROWS_WITH_AS(ThreadPool({.num_threads = 3, .cpus = {0}}), doctest::Contains("3 compute threads"),
                       std::runtime_error);
}

}  // namespace troupe
