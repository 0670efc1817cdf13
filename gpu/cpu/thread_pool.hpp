// SPDX-License-Identifier: Apache-2.0
// The compute threads of the CPU backend. One thread, the caller, cuts an
// operator into tasks and works on them itself; the others help. Tasks are
// taken one by one from a shared counter, so a thread that the system has
// parked delays at most the task it holds, and the caller never waits for a
// thread to wake up. Idle threads spin briefly, then yield, then sleep: with as
// few as two cores the I/O threads must not starve. Where threads are bound to
// cores, one that goes to sleep lends its core to one that was parked meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "gpu/cpu/core_lending.hpp"

namespace troupe {

struct ThreadPoolOptions {
  unsigned num_threads = 1;    // the caller included; at least 1
  std::vector<int> cpus = {};  // thread i is pinned to cpus[i]; empty: not pinned
  // How long an idle thread looks for work before it gives its core away.
  std::chrono::microseconds spin{20};
};

// run() may be called by one thread at a time.
class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned num_threads() const { return options_.num_threads; }

  // Pins the calling thread where callers are, before it is one; another may be meanwhile.
  void bind_future_caller() { lending_.bind_future_caller(); }
  // Pins the calling thread as thread 0, if pinning was asked for: its runs may be lent cores. Where the
  // system refuses, it stays where it is.
  void adopt_caller() { lending_.adopt(0); }
  // Before another thread is adopted, or this one ends.
  void release_caller() { lending_.release_caller(); }

  // Calls task(0) … task(num_tasks - 1), each once, on any of the threads, and
  // returns when all are done. The first exception of a task is thrown again
  // here, after all have ended. Must not be called from inside a task.
  template <typename Task>
  void run(std::size_t num_tasks, Task&& task) {
    using TaskType = std::remove_reference_t<Task>;
    run_tasks(
        num_tasks, [](void* closure, std::size_t index) { (*static_cast<TaskType*>(closure))(index); },
        const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }

 private:
  using TaskFunction = void (*)(void* closure, std::size_t index);

  void run_tasks(std::size_t num_tasks, TaskFunction function, void* closure);
  void run_inline(std::size_t num_tasks, TaskFunction function, void* closure);
  bool take_and_run_one();
  void wait_until_finished();
  void work(unsigned thread);
  void stop_threads();

  ThreadPoolOptions options_;
  // Written by run() before it publishes, read by the thread that took a task: a taken
  // task keeps run() from returning, so these cannot change under a reader.
  TaskFunction function_ = nullptr;
  void* closure_ = nullptr;
  std::uint32_t num_tasks_ = 0;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;

  // High half: number of the run; low half: tasks not yet taken. In one word,
  // so that a late thread can never take a task of a run it has not seen.
  alignas(64) std::atomic<std::uint64_t> untaken_{0};
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  alignas(64) std::atomic<std::uint32_t> published_{0};  // changes with every run
  std::atomic<std::uint32_t> num_sleeping_{0};
  std::atomic<bool> stop_{false};
  CoreLending lending_;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
