// SPDX-License-Identifier: Apache-2.0
// Lends the core of a compute thread that has nothing left to do to one that the system has
// parked in the middle of its work, because a foreign thread runs on that one's core: else all
// wait until the foreign thread's time slice ends, some milliseconds, many times a step.
//
// Threads are bound to cores, so the system itself moves none. A helper is bound to the waiting
// thread's core until it has done its work and then returns; the caller, whom everything waits
// for, changes places with the waiting helper for good. A thread is taken for parked if its
// processor time stands still between two looks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace troupe {

// Thread 0 is the pool's caller, of which there may be several, one after the other.
class CoreLending {
 public:
  // Thread i is bound to cpus[i]; none is bound, and nothing lent, if `cpus` is empty.
  CoreLending(unsigned num_threads, const std::vector<int>& cpus);

  // The calling thread is this one from now on, and is bound to its core. False if the system refuses.
  bool adopt(unsigned thread);
  // Thread 0 may end or be another after this.
  void release_caller();

  // Between the two a thread may be lent a core. Its own thread calls both.
  void begin_work(unsigned thread) { places_[thread].works.store(true, std::memory_order_relaxed); }
  void end_work(unsigned thread) {
    places_[thread].works.store(false, std::memory_order_relaxed);
    if (places_[thread].is_away.load(std::memory_order_relaxed)) return_home(thread);
  }

  // Thread `idle`, which calls it, has nothing to do and sleeps afterwards: if another one that works is
  // parked, it has the core, and lend() is true. Ends early once is_needed() is true.
  template <typename Condition>
  bool lend(unsigned idle, const Condition& is_needed) {
    for (unsigned other = 0; other < num_threads_ && is_bound_; ++other) {
      if (other == idle) continue;
      const auto before = processor_time(other);
      if (!before) continue;
      const auto deadline = std::chrono::steady_clock::now() + kBetweenLooks;
      while (std::chrono::steady_clock::now() < deadline) {
        if (is_needed()) return false;
      }
      if (processor_time(other) == before && move(other, idle)) return true;
    }
    return false;
  }

 private:
  static constexpr std::chrono::microseconds kBetweenLooks{10};

  struct alignas(64) Place {
    std::atomic<bool> works{false};
    std::atomic<bool> is_away{false};  // at a core that another thread has lent
    std::atomic<pid_t> thread{0};      // 0: nobody
    int cpu = -1;                      // guarded by mutex_
  };

  bool may_move(unsigned thread) const;
  // Of a thread that may be moved.
  std::optional<std::int64_t> processor_time(unsigned thread) const;
  bool move(unsigned parked, unsigned idle);
  void return_home(unsigned thread);

  unsigned num_threads_;
  bool is_bound_;
  std::unique_ptr<Place[]> places_;
  std::mutex mutex_;
};

}  // namespace troupe
