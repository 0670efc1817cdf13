// SPDX-License-Identifier: Apache-2.0
// How the threads of the actors share their work: one queue, first in, first out, like CAF's policy
// "sharing". A thread is woken when the queue's lock is free again, and only where one sleeps. CAF's is woken
// under the lock, for which it then waits: two more switches of threads for each message to an idle pool
// (docs/decisions/0035-batches-without-a-thread.md).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {

// A policy of caf::scheduler::coordinator, whose names it has. Any thread.
class SharedJobs : public caf::policy::unprofiled {
 public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    std::mutex mutex;
    std::condition_variable has_jobs;
    std::deque<caf::resumable*> jobs;
    std::size_t num_asleep = 0;  // threads
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    coordinator_data& data = d(self);
    bool must_wake = false;
    {
      const std::lock_guard lock(data.mutex);
      data.jobs.push_back(job);
      must_wake = data.num_asleep > 0;
    }
    if (must_wake) data.has_jobs.notify_one();
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    coordinator_data& data = d(self->parent());
    std::unique_lock lock(data.mutex);
    while (data.jobs.empty()) {
      data.num_asleep += 1;
      data.has_jobs.wait(lock);
      data.num_asleep -= 1;
    }
    caf::resumable* const job = data.jobs.front();
    data.jobs.pop_front();
    return job;
  }

  template <class Worker, class Visit>
  void foreach_resumable(Worker*, const Visit&) {}  // threads have no jobs of their own
  template <class Coordinator, class Visit>
  void foreach_central_resumable(Coordinator* self, const Visit& visit) {
    std::deque<caf::resumable*> jobs;
    {
      const std::lock_guard lock(d(self).mutex);
      jobs.swap(d(self).jobs);
    }
    for (caf::resumable* job : jobs) visit(job);
  }
};

}  // namespace troupe
