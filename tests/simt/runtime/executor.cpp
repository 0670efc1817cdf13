// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/executor.hpp"

#include <algorithm>
#include <utility>

#include "tests/simt/interpreter/launch.hpp"

namespace troupe::simt {

// Guarded by the executor's mutex.
class Operation {
 public:
  std::function<void()> run;
  std::uint64_t number = 0;
  std::size_t num_awaited = 0;
  std::vector<OperationPointer> dependents;
  bool has_ended = false;
  Executor::Clock::time_point end;
};

namespace {

using namespace std::chrono_literals;

// How long the host is left alone after it has added something, and at most.
constexpr auto kHostPause = 200us;
constexpr auto kLongestPause = 5ms;

thread_local bool is_in_operation_now = false;

void run_as_operation(const std::function<void()>& run) {
  struct Flag {
    Flag() { is_in_operation_now = true; }
    ~Flag() { is_in_operation_now = false; }
  } const flag;
  if (run) run();
}

}  // namespace

bool Executor::is_in_operation() { return is_in_operation_now; }

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    drop_all();
  }
  work_came_.notify_all();
  if (thread_.joinable()) thread_.join();
}

OperationPointer Executor::add(std::function<void()> run, std::span<const OperationPointer> after) {
  auto operation = std::make_shared<Operation>();
  operation->run = std::move(run);
  const std::lock_guard lock(mutex_);
  operation->number = next_number_++;
  if (has_failed_) {
    operation->has_ended = true;
    return operation;
  }
  for (const auto& other : after) {
    if (other == nullptr || other->has_ended) continue;
    other->dependents.push_back(operation);
    ++operation->num_awaited;
  }
  if (operation->num_awaited == 0) ready_.push_back(operation);
  ++num_pending_;
  last_addition_ = Clock::now();
  if (num_pending_ == 1) last_end_ = last_addition_;
  if (!thread_.joinable()) thread_ = std::thread([this] { run_operations(); });
  work_came_.notify_all();
  return operation;
}

OperationPointer Executor::run_here(const std::function<void()>& run) {
  wait_for_all();
  run_as_operation(run);
  auto operation = std::make_shared<Operation>();
  operation->has_ended = true;
  operation->end = Clock::now();
  return operation;
}

bool Executor::has_ended(const OperationPointer& operation) const {
  if (operation == nullptr) return true;
  const std::lock_guard lock(mutex_);
  return operation->has_ended;
}

Executor::Clock::time_point Executor::end_of(const OperationPointer& operation) const {
  const std::lock_guard lock(mutex_);
  return operation->end;
}

void Executor::wait(const OperationPointer& operation) {
  if (operation == nullptr) return;
  std::unique_lock lock(mutex_);
  ++num_waiters_;
  work_came_.notify_all();
  operation_ended_.wait(lock, [&] { return operation->has_ended; });
  --num_waiters_;
}

void Executor::wait_for_all() {
  std::unique_lock lock(mutex_);
  ++num_waiters_;
  work_came_.notify_all();
  operation_ended_.wait(lock, [&] { return num_pending_ == 0; });
  --num_waiters_;
}

std::exception_ptr Executor::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Executor::set_hanging(bool is_hanging) {
  const std::lock_guard lock(mutex_);
  is_hanging_ = is_hanging;
  work_came_.notify_all();
}

void Executor::reset() {
  std::unique_lock lock(mutex_);
  drop_all();
  operation_ended_.wait(lock, [&] { return running_ == nullptr; });
  drop_all();
  is_hanging_ = false;
  failure_ = nullptr;
  has_failed_ = false;
}

void Executor::run_operations() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (wait_until_it_may_run(lock)) run(take_next(), lock);
  }
}

bool Executor::wait_until_it_may_run(std::unique_lock<std::mutex>& lock) {
  if (ready_.empty() || is_hanging_) {
    work_came_.wait(lock);
    return false;
  }
  if (const std::uint64_t seed = order(); seed != seed_) {
    seed_ = seed;
    random_.seed(static_cast<unsigned>(seed * 2654435761U + 1));
  }
  if (seed_ == 0 || num_waiters_ > 0) return true;
  const auto end_of_pause = std::min(last_addition_ + kHostPause, last_end_ + kLongestPause);
  if (Clock::now() >= end_of_pause) return true;
  work_came_.wait_until(lock, end_of_pause);
  return false;
}

// Either any of them, or the newest, which mostly follows the last one in its
// stream: so a stream may also run far ahead of the others.
OperationPointer Executor::take_next() {
  auto chosen = ready_.end() - 1;
  if (seed_ == 0) {
    chosen = std::min_element(ready_.begin(), ready_.end(), [](const auto& left, const auto& right) {
      return left->number < right->number;
    });
  } else if (random_() % uniform_choices_in_ == 0) {
    chosen = ready_.begin() + static_cast<std::ptrdiff_t>(random_() % ready_.size());
    uniform_choices_in_ = 1U << random_() % 5;
  }
  OperationPointer operation = std::move(*chosen);
  ready_.erase(chosen);
  return operation;
}

void Executor::run(const OperationPointer& operation, std::unique_lock<std::mutex>& lock) {
  running_ = operation;
  std::function<void()> work = std::move(operation->run);
  operation->run = nullptr;
  std::exception_ptr error;
  lock.unlock();
  try {
    run_as_operation(work);
  } catch (...) {
    error = std::current_exception();
  }
  work = nullptr;
  lock.lock();
  running_ = nullptr;
  last_end_ = Clock::now();
  end(*operation);
  if (!error) return;
  failure_ = error;
  has_failed_ = true;
  drop_all();
}

void Executor::end(Operation& operation) {
  operation.has_ended = true;
  operation.end = Clock::now();
  for (auto& dependent : operation.dependents) {
    if (--dependent->num_awaited == 0) ready_.push_back(std::move(dependent));
  }
  operation.dependents.clear();
  --num_pending_;
  operation_ended_.notify_all();
}

// All that is pending is ready, runs, or depends on one of those.
void Executor::drop_all() {
  if (running_ != nullptr) {
    for (auto& dependent : running_->dependents) {
      if (--dependent->num_awaited == 0) ready_.push_back(std::move(dependent));
    }
    running_->dependents.clear();
  }
  while (!ready_.empty()) {
    const OperationPointer operation = std::move(ready_.back());
    ready_.pop_back();
    operation->run = nullptr;
    end(*operation);
  }
}

}  // namespace troupe::simt
