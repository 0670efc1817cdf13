// SPDX-License-Identifier: Apache-2.0
// Threads that are really parked, by others that keep their core busy.
#include "gpu/cpu/core_lending.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/thread_pool.hpp"

namespace troupe {
namespace {

// Two that the test may use, or fewer.
std::vector<int> two_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) MESSAGE("SKIPPED: one CPU only");
  return cpus;
}

void stay_at(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  REQUIRE(sched_setaffinity(0, sizeof(set), &set) == 0);
}

// Foreign threads that keep a core busy, so that any other thread there is parked for most of the time.
class BusyCore {
 public:
  explicit BusyCore(int cpu) {
    for (int i = 0; i < 3; ++i) {
      threads_.emplace_back([this, cpu] {
        stay_at(cpu);
        while (!ends_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyCore() {
    ends_.store(true);
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

bool is_never() { return false; }

// True if the calling thread may run on this core alone.
bool is_bound_to(int cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  return CPU_COUNT(&allowed) == 1 && CPU_ISSET(cpu, &allowed);
}

void work_until_at(int cpu) {
  while (sched_getcpu() != cpu) {
  }
}

}  // namespace

TEST_CASE("core lending: a parked helper ends its work at the core of one that waits, and returns") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  CoreLending lending(2, cpus);
  bool has_returned = false;
  std::atomic<bool> works{false};
  std::thread helper([&] {
    CHECK(lending.adopt(1));
    const BusyCore foreign(cpus[1]);
    lending.begin_work(1);
    works.store(true);
    work_until_at(cpus[0]);
    lending.end_work(1);
    has_returned = is_bound_to(cpus[1]);
  });
  std::thread([&] {
    CHECK(lending.adopt(0));
    while (!works.load() || !lending.lend(0, is_never)) {
    }
    CHECK(is_bound_to(cpus[0]));
    lending.release_caller();
  }).join();
  helper.join();
  CHECK(has_returned);
}

TEST_CASE("core lending: a parked caller changes places with a helper that has nothing to do") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  CoreLending lending(2, cpus);
  bool is_at_the_callers_core = false;
  std::atomic<bool> works{false};
  std::thread helper([&] {
    CHECK(lending.adopt(1));
    while (!works.load() || !lending.lend(1, is_never)) {
    }
    is_at_the_callers_core = is_bound_to(cpus[0]);
  });
  std::thread([&] {
    CHECK(lending.adopt(0));
    const BusyCore foreign(cpus[0]);
    lending.begin_work(0);
    works.store(true);
    work_until_at(cpus[1]);
    lending.end_work(0);
    CHECK(is_bound_to(cpus[1]));
    lending.release_caller();
  }).join();
  helper.join();
  CHECK(is_at_the_callers_core);
  // The next caller has the place that the one before left.
  std::thread([&] {
    CHECK(lending.adopt(0));
    CHECK(is_bound_to(cpus[1]));
  }).join();
}

TEST_CASE("core lending: one that has no work, or has ended, is left alone") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  CoreLending lending(2, cpus);
  std::thread([&] {
    CHECK(lending.adopt(0));
    CHECK_FALSE(lending.lend(0, is_never));  // there is no other
    std::thread helper([&] { CHECK(lending.adopt(1)); });
    helper.join();
    CHECK_FALSE(lending.lend(0, is_never));
    lending.begin_work(1);
    CHECK_FALSE(lending.lend(0, is_never));
    lending.end_work(1);
    CHECK(is_bound_to(cpus[0]));
  }).join();
}

TEST_CASE("core lending: threads that are bound to no core stay where the system puts them") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  CoreLending lending(2, {});
  std::atomic<bool> ends{false};
  std::thread helper([&] {
    CHECK(lending.adopt(1));
    lending.begin_work(1);
    while (!ends.load()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    lending.end_work(1);
    CHECK_FALSE(is_bound_to(cpus[0]));
  });
  CHECK(lending.adopt(0));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(lending.lend(0, is_never));
  ends.store(true);
  helper.join();
}

TEST_CASE("core lending: a core that is not there is refused, and nothing is lent") {
  CoreLending lending(2, {CPU_SETSIZE - 1, CPU_SETSIZE - 2});
  std::thread([&] {
    CHECK_FALSE(lending.adopt(0));
    lending.begin_work(1);
    CHECK_FALSE(lending.lend(0, is_never));
    lending.release_caller();
  }).join();
}

TEST_CASE("core lending: a pool beside foreign threads runs every task once") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  ThreadPool pool({.num_threads = 2, .cpus = cpus});
  std::thread([&] {
    pool.adopt_caller();
    for (const int busy : cpus) {
      const BusyCore foreign(busy);
      for (int round = 0; round < 30; ++round) {
        std::vector<std::atomic<int>> runs(20);
        pool.run(runs.size(), [&](std::size_t task) { runs[task].fetch_add(1); });
        for (const auto& count : runs) CHECK(count.load() == 1);
      }
    }
    pool.release_caller();
  }).join();
}

}  // namespace troupe
