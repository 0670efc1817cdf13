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
  for (unsigned i = 0; i < num_threads && is_bound_; ++i) places_[i].cpu = cpus[i];
}

bool CoreLending::adopt(unsigned thread) {
  if (!is_bound_) return true;
  const std::lock_guard lock(mutex_);
  Place& place = places_[thread];
  place.thread.store(gettid());
  if (bound_cpu == place.cpu) return true;
  if (!bind_to(kCallingThread, place.cpu)) return false;
  bound_cpu = place.cpu;
  return true;
}

void CoreLending::release_caller() {
  if (!is_bound_) return;
  const std::lock_guard lock(mutex_);
  places_[0].works.store(false);
  places_[0].thread.store(0);
  bound_cpu = places_[0].cpu;  // it may have changed places
}

bool CoreLending::may_move(unsigned thread) const {
  const Place& place = places_[thread];
  return place.works.load() && !place.is_away.load() && place.thread.load() != 0;
}

std::optional<std::int64_t> CoreLending::processor_time(unsigned thread) const {
  timespec now{};
  if (!may_move(thread) || clock_gettime(clock_of(places_[thread].thread.load()), &now) != 0) return {};
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool CoreLending::move(unsigned parked, unsigned idle) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !may_move(parked)) return false;
  Place& place = places_[parked];
  if (parked == 0) {
    if (!bind_to(place.thread, places_[idle].cpu)) return false;
    std::swap(place.cpu, places_[idle].cpu);
    bind_to(kCallingThread, places_[idle].cpu);
    return true;
  }
  place.is_away.store(true);
  if (bind_to(place.thread, places_[idle].cpu)) return true;
  place.is_away.store(false);
  return false;
}

void CoreLending::return_home(unsigned thread) {
  const std::lock_guard lock(mutex_);
  bind_to(kCallingThread, places_[thread].cpu);
  places_[thread].is_away.store(false);
}

}  // namespace troupe
