// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {
namespace {

constexpr int kPausesPerLook = 32;
constexpr int kYieldsBeforeSleep = 16;
constexpr std::size_t kMaxTasks = 1U << 30;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

// Looks at a condition for a bounded time. Returns whether it came true.
template <typename Condition>
bool spin_until(const Condition& is_true, std::chrono::microseconds spin) {
  const auto deadline = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (is_true()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return is_true();
}

// The same, giving the core away between looks.
template <typename Condition>
bool yield_until(const Condition& is_true) {
  for (int i = 0; i < kYieldsBeforeSleep; ++i) {
    if (is_true()) return true;
    sched_yield();
  }
  return is_true();
}

void pin(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(thread, sizeof(set), &set) != 0) {
    throw std::runtime_error("a compute thread cannot be pinned to CPU " + std::to_string(cpu));
  }
}

ThreadPoolOptions checked(ThreadPoolOptions options) {
  options.num_threads = std::max(options.num_threads, 1U);
  if (!options.cpus.empty() && options.cpus.size() < options.num_threads) {
    throw std::runtime_error(std::to_string(options.num_threads) + " compute threads, but only " +
                             std::to_string(options.cpus.size()) + " CPUs to pin them to");
  }
  // The calling thread may be kept to others: the system says whether a thread can be pinned.
  for (const int cpu : options.cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) throw std::runtime_error("there is no CPU " + std::to_string(cpu));
  }
  return options;
}

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : options_(checked(std::move(options))), lending_(options_.num_threads, options_.cpus) {
  try {
    for (unsigned i = 1; i < options_.num_threads; ++i) {
      threads_.emplace_back([this, i] { work(i); });
      if (!options_.cpus.empty()) pin(threads_.back().native_handle(), options_.cpus[i]);
    }
  } catch (...) {
    stop_threads();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop_threads(); }

void ThreadPool::stop_threads() {
  stop_.store(true);
  published_.fetch_add(1);
  published_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run_tasks(std::size_t num_tasks, TaskFunction function, void* closure) {
  if (num_tasks <= 1 || threads_.empty()) {
    run_inline(num_tasks, function, closure);
    return;
  }
  if (num_tasks > kMaxTasks) throw std::runtime_error("too many tasks in one run");
  function_ = function;
  closure_ = closure;
  num_tasks_ = static_cast<std::uint32_t>(num_tasks);
  unfinished_.store(num_tasks_, std::memory_order_relaxed);
  const std::uint64_t run_number = (untaken_.load(std::memory_order_relaxed) >> 32) + 1;
  untaken_.store(run_number << 32 | num_tasks_, std::memory_order_release);
  // Sequentially consistent with num_sleeping_: either a thread on its way to
  // sleep sees the new number, or we see it asleep.
  published_.fetch_add(1);
  if (num_sleeping_.load() > 0) published_.notify_all();

  lending_.begin_work(0);
  while (take_and_run_one()) {
  }
  wait_until_finished();
  lending_.end_work(0);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::run_inline(std::size_t num_tasks, TaskFunction function, void* closure) {
  for (std::size_t i = 0; i < num_tasks; ++i) function(closure, i);
}

bool ThreadPool::take_and_run_one() {
  std::uint64_t seen = untaken_.load(std::memory_order_acquire);
  do {
    if ((seen & 0xFFFFFFFFU) == 0) return false;
  } while (
      !untaken_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  const auto left = static_cast<std::uint32_t>(seen & 0xFFFFFFFFU);
  try {
    function_(closure_, num_tasks_ - left);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  // The last one wakes the caller, which may sleep if this thread was parked.
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  return true;
}

void ThreadPool::wait_until_finished() {
  const auto is_finished = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_until(is_finished, options_.spin)) return;
  if (!lending_.lend(0, is_finished) && yield_until(is_finished)) return;
  lending_.end_work(0);  // a thread that sleeps is not parked
  for (auto left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    unfinished_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::work(unsigned thread) {
  lending_.adopt(thread);
  for (;;) {
    // Before the look at stop_: a stop that this look misses changes the number that is waited on.
    const std::uint32_t seen = published_.load();
    if (stop_.load()) return;
    lending_.begin_work(thread);
    while (take_and_run_one()) lending_.return_home(thread);
    lending_.end_work(thread);
    const auto is_new = [&] { return published_.load(std::memory_order_acquire) != seen; };
    if (spin_until(is_new, options_.spin)) continue;
    if (!lending_.lend(thread, is_new) && yield_until(is_new)) continue;
    num_sleeping_.fetch_add(1);
    published_.wait(seen);
    num_sleeping_.fetch_sub(1);
  }
}

}  // namespace troupe
