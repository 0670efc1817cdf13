// SPDX-License-Identifier: Apache-2.0
// Lends the core of a compute thread that has nothing left to do to one that the system has
// parked in the middle of its work, because a foreign thread runs on that one's core: else all
// wait until the foreign thread's time slice ends, some milliseconds, many times a step.
//
// Threads are bound to cores, so the system itself moves none. A helper is bound to the waiting
// thread's core until it has done its work and then returns; the caller, without which nothing
// goes on, changes places with the waiting helper. A thread is taken for parked if its processor
// time stands still between two looks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

// Thread 0 is the pool's caller, of which there may be several, one after the other.
class CoreLending {
 public:
  // Thread i is bound to cpus[i]; none is bound, and nothing lent, if `cpus` is empty.
  CoreLending(unsigned num_threads, const std::vector<int>& cpus);

  // Binds the calling thread to the caller's core before it is adopted, while another may be the caller.
  void bind_future_caller();
  // The calling thread is this one from now on, and is bound to its core. Where the system refuses, it
  // stays where it is, and neither lends nor is lent a core; then the result is false.
  bool adopt(unsigned thread);
  // Thread 0 may end or be another after this.
  void release_caller();

  // Between the two a thread may be lent a core. Its own thread calls both, and return_home() as often as it
  // likes in between.
  void begin_work(unsigned thread) { places_[thread].works.store(true, std::memory_order_relaxed); }
  void end_work(unsigned thread) {
    places_[thread].works.store(false);  // before the look at is_away, as move() looks at them in turn
    return_home(thread);
  }
  void return_home(unsigned thread) {
    if (places_[thread].is_away.load()) leave_lent_core(thread);
  }

  // Thread `idle`, which calls it, has nothing to do and sleeps afterwards: if another one that works is
  // parked, it has the core, and lend() is true. Ends early once is_needed() is true.
  template <typename Condition>
  bool lend(unsigned idle, const Condition& is_needed) {
    if (!may_lend(idle) || !look_at_others(idle)) return false;
    const auto deadline = std::chrono::steady_clock::now() + kBetweenLooks;
    while (std::chrono::steady_clock::now() < deadline) {
      if (is_needed()) return false;
    }
    const unsigned parked = find_parked(idle);
    return parked != num_threads_ && !is_needed() && move(parked, idle);
  }

 private:
  static constexpr std::chrono::microseconds kBetweenLooks{10};

  struct alignas(64) Place {
    std::atomic<bool> works{false};
    std::atomic<bool> is_away{false};  // at a core that another thread has lent
    std::atomic<pid_t> thread{0};      // 0: none is bound to the core
    int cpu = -1;                      // guarded by mutex_
    // Processor time of each thread at the first look, of this place's thread; negative: it need not be
    // moved.
    std::vector<std::int64_t> seen;
  };

  bool bind_here(unsigned thread);  // the calling thread, to a place's core; mutex_ is held
  bool may_lend(unsigned idle) const;
  bool may_move(unsigned thread) const;
  // Negative: the thread may not be moved.
  std::int64_t processor_time(unsigned thread) const;
  // False: there is none that could be parked.
  bool look_at_others(unsigned idle);
  // num_threads_: there is none.
  unsigned find_parked(unsigned idle) const;
  bool move(unsigned parked, unsigned idle);
  bool lend_to_helper(unsigned parked, unsigned idle);
  bool change_places(unsigned idle);
  void leave_lent_core(unsigned thread);

  unsigned num_threads_;
  bool is_bound_;
  std::unique_ptr<Place[]> places_;
  std::mutex mutex_;
};

}  // namespace troupe
