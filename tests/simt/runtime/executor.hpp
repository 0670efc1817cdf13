// SPDX-License-Identifier: Apache-2.0
// Runs the operations of all streams on one thread, each after those it depends
// on. Which of the ready ones comes next is drawn from the seed of set_order();
// with seed 0 it is the one that was added first. Under another seed the thread
// also lets the host run ahead, for a moment that is never promised, so that
// operations of several streams meet and staging memory that is overwritten too
// early shows. Knows nothing of CUDA. Any thread may call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace troupe::simt {

class Operation;
using OperationPointer = std::shared_ptr<Operation>;

class Executor {
 public:
  using Clock = std::chrono::steady_clock;

  Executor() = default;
  ~Executor();  // what has not begun is dropped
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `run` may be empty. Entries of `after` may be null. Once an operation has
  // thrown, all others end without being run.
  OperationPointer add(std::function<void()> run, std::span<const OperationPointer> after);

  // Runs it on the caller, when everything added before has ended. Throws what
  // `run` throws; that is not a failure of the executor.
  OperationPointer run_here(const std::function<void()>& run);

  // Null has ended.
  bool has_ended(const OperationPointer& operation) const;
  Clock::time_point end_of(const OperationPointer& operation) const;
  void wait(const OperationPointer& operation);
  void wait_for_all();

  // What an operation threw.
  std::exception_ptr failure() const;
  bool has_failed() const { return has_failed_; }

  // Begins no operation until it is switched off again or reset() is called.
  void set_hanging(bool is_hanging);
  // Drops what has not begun, waits for the operation that has, forgets the failure.
  void reset();

  // Whether the caller is an operation.
  static bool is_in_operation();

 private:
  void run_operations();
  bool wait_until_it_may_run(std::unique_lock<std::mutex>& lock);  // false: look again
  OperationPointer take_next();
  void run(const OperationPointer& operation, std::unique_lock<std::mutex>& lock);
  void end(Operation& operation);
  void drop_all();

  mutable std::mutex mutex_;
  std::condition_variable work_came_;
  mutable std::condition_variable operation_ended_;
  std::vector<OperationPointer> ready_;
  OperationPointer running_;
  std::size_t num_pending_ = 0;  // added, not ended
  std::size_t num_waiters_ = 0;
  std::uint64_t next_number_ = 0;
  Clock::time_point last_addition_, last_end_;
  std::uint64_t seed_ = 0;
  std::minstd_rand random_;
  unsigned uniform_choices_in_ = 1;  // every how many choices is uniform, about
  std::exception_ptr failure_;
  std::atomic<bool> has_failed_ = false;
  bool is_hanging_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe::simt
