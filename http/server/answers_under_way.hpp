// SPDX-License-Identifier: Apache-2.0
// How many answers are being generated or written, over all io threads; what a
// drain waits for. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace troupe {

class AnswersUnderWay {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++num_;
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    if (--num_ == 0) none_.notify_all();
  }
  // True if none is left before the time is up.
  bool wait_for_none(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, at_most, [this] { return num_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::uint64_t num_ = 0;
};

}  // namespace troupe
