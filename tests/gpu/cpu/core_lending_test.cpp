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

constexpr std::chrono::milliseconds kLongestTask{20};
constexpr int kMostRuns = 1000;

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

// A task that works until it is at this core, or for some time slices.
bool works_until_at(int cpu) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestTask;
  while (sched_getcpu() != cpu) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

template <typename OfCaller, typename OfHelper>
void run_on_both(ThreadPool& pool, const OfCaller& of_caller, const OfHelper& of_helper) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> arrived{0};
  pool.run(2, [&](std::size_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 2) std::this_thread::yield();
    if (std::this_thread::get_id() == caller) {
      of_caller();
    } else {
      of_helper();
    }
  });
}

// Whether caller and helper work at one core each. Where others disturb them, one may be lent the other's.
bool have_a_core_each(ThreadPool& pool) {
  int of_caller = -1, of_helper = -1;
  for (int i = 0; i < kMostRuns && of_caller == of_helper; ++i)
    run_on_both(
        pool, [&] { of_caller = sched_getcpu(); }, [&] { of_helper = sched_getcpu(); });
  return of_caller != of_helper;
}

}  // namespace

TEST_CASE("core lending: a parked helper ends its task at the waiting caller's core and returns") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  ThreadPool pool({.num_threads = 2, .cpus = cpus});
  std::thread([&] {
    pool.adopt_caller();
    bool has_moved = false;
    {
      const BusyCore foreign(cpus[1]);
      const auto until_moved = [&] { has_moved = works_until_at(cpus[0]); };
      // The caller looks once a run: it may find that the helper has its core just then.
      for (int i = 0; i < kMostRuns && !has_moved; ++i)
        run_on_both(
            pool, [] {}, until_moved);
    }
    CHECK(has_moved);
    CHECK(have_a_core_each(pool));
    pool.release_caller();
  }).join();
}

TEST_CASE("core lending: a parked caller changes places with a helper that has nothing to do") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  ThreadPool pool({.num_threads = 2, .cpus = cpus});
  std::thread([&] {
    pool.adopt_caller();
    bool has_moved = false;
    {
      const BusyCore foreign(cpus[0]);
      const auto until_moved = [&] { has_moved = works_until_at(cpus[1]); };
      for (int i = 0; i < kMostRuns && !has_moved; ++i) run_on_both(pool, until_moved, [] {});
    }
    CHECK(has_moved);
    CHECK(have_a_core_each(pool));
    pool.release_caller();
  }).join();
  // The next caller has the place that the one before left.
  std::thread([&] {
    pool.adopt_caller();
    CHECK(have_a_core_each(pool));
    pool.release_caller();
  }).join();
}

TEST_CASE("core lending: threads that are bound to no core stay where the system puts them") {
  const std::vector<int> cpus = two_cpus();
  if (cpus.size() < 2) return;
  CoreLending lending(2, {});
  lending.begin_work(1);
  std::thread([&] {
    CHECK(lending.adopt(1));
    lending.lend(1, [] { return false; });
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    CHECK(CPU_COUNT(&allowed) > 1);
  }).join();
}

TEST_CASE("core lending: a core that is not there is refused, and the thread goes on") {
  CoreLending lending(1, {CPU_SETSIZE - 1});
  std::thread([&] { CHECK_FALSE(lending.adopt(0)); }).join();
}

}  // namespace troupe
