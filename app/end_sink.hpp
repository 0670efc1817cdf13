// SPDX-License-Identifier: Apache-2.0
// A command of one request waits for its end: Finished with the result, or Failed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/engine.hpp"

namespace troupe {

class EndSink : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    if (!is_terminal(event)) return;
    const std::lock_guard lock(mutex_);
    end_ = std::move(event);
    ended_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

  ResponseEvent wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return end_.has_value(); });
    return *end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<ResponseEvent> end_;
};

}  // namespace troupe
