// SPDX-License-Identifier: Apache-2.0
// Collects an answer's text, for a test thread that waits for its end.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <variant>

#include "actors/engine.hpp"

namespace troupe {

class TextSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<TextDelta>(&event)) text_ += delta->text;
    if (const auto* failed = std::get_if<Failed>(&event)) text_ += "FAILED: " + failed->error.message;
    has_ended_ = has_ended_ || is_terminal(event);
    if (has_ended_) ended_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }
  std::string wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return has_ended_; });
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::string text_;
};

}  // namespace troupe
