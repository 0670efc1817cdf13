// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/core_lending.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace troupe {
namespace {

constexpr pid_t kCallingThread = 0;

// The core that the calling thread was last bound to by itself.
thread_local int bound_cpu = -1;

bool bind_to(pid_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(thread, sizeof(set), &set) == 0;
}

// The clock of a thread of this process, as pthread_getcpuclockid() names it, which wants a thread that
// lives.
clockid_t clock_of(pid_t thread) {
  constexpr clockid_t kOfOneThread = 4, kScheduled = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3) | kOfOneThread | kScheduled;
}

}  // namespace

CoreLending::CoreLending(unsigned num_threads, const std::vector<int>& cpus)
    : num_threads_(num_threads), is_bound_(!cpus.empty()), places_(std::make_unique<Place[]>(num_threads)) {
  for (unsigned i = 0; i < num_threads && is_bound_; ++i) {
    places_[i].cpu = cpus[i];
    places_[i].seen.resize(num_threads, -1);
  }
}

bool CoreLending::bind_here(unsigned thread) {
  const int cpu = places_[thread].cpu;
  if (bound_cpu != cpu && !bind_to(kCallingThread, cpu)) return false;
  bound_cpu = cpu;
  return true;
}

void CoreLending::bind_future_caller() {
  if (!is_bound_) return;
  const std::lock_guard lock(mutex_);
  (void)bind_here(0);  // adopt() tries again
}

bool CoreLending::adopt(unsigned thread) {
  if (!is_bound_) return true;
  const std::lock_guard lock(mutex_);
  if (!bind_here(thread)) return false;
  places_[thread].thread.store(gettid());
  return true;
}

void CoreLending::release_caller() {
  if (!is_bound_) return;
  const std::lock_guard lock(mutex_);
  if (places_[0].thread.exchange(0) != 0) bound_cpu = places_[0].cpu;  // it may have changed places
}

bool CoreLending::may_lend(unsigned idle) const {
  return is_bound_ && places_[idle].thread.load() != 0 && !places_[idle].is_away.load();
}

bool CoreLending::may_move(unsigned thread) const {
  const Place& place = places_[thread];
  return place.works.load() && !place.is_away.load() && place.thread.load() != 0;
}

std::int64_t CoreLending::processor_time(unsigned thread) const {
  timespec now{};
  if (!may_move(thread) || clock_gettime(clock_of(places_[thread].thread.load()), &now) != 0) return -1;
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool CoreLending::look_at_others(unsigned idle) {
  bool is_any = false;
  for (unsigned other = 0; other < num_threads_; ++other) {
    const std::int64_t time = other == idle ? -1 : processor_time(other);
    places_[idle].seen[other] = time;
    is_any = is_any || time >= 0;
  }
  return is_any;
}

unsigned CoreLending::find_parked(unsigned idle) const {
  for (unsigned other = 0; other < num_threads_; ++other) {
    const std::int64_t before = places_[idle].seen[other];
    if (before >= 0 && processor_time(other) == before) return other;
  }
  return num_threads_;
}

bool CoreLending::move(unsigned parked, unsigned idle) {
  return parked == 0 ? change_places(idle) : lend_to_helper(parked, idle);
}

bool CoreLending::lend_to_helper(unsigned parked, unsigned idle) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !may_move(parked)) return false;
  Place& place = places_[parked];
  place.is_away.store(true);
  if (place.works.load() && bind_to(place.thread, places_[idle].cpu)) return true;
  place.is_away.store(false);
  return false;
}

// The idle thread waits for its time at the caller's core, so it holds no lock when it goes there.
bool CoreLending::change_places(unsigned idle) {
  int old_cpu = -1, new_cpu = -1;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !may_move(0)) return false;
    old_cpu = places_[idle].cpu;
    new_cpu = places_[0].cpu;
    if (!bind_to(places_[0].thread, old_cpu)) return false;
    std::swap(places_[0].cpu, places_[idle].cpu);
  }
  if (!bind_to(kCallingThread, new_cpu)) places_[idle].is_away.store(true);  // it tries again
  return true;
}

// It waits at its own core for its time and holds no lock meanwhile. Where the system refuses, it stays.
void CoreLending::leave_lent_core(unsigned thread) {
  int cpu = -1;
  {
    const std::lock_guard lock(mutex_);
    cpu = places_[thread].cpu;
  }
  (void)bind_to(kCallingThread, cpu);
  places_[thread].is_away.store(false);
}

}  // namespace troupe
