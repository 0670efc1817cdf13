// SPDX-License-Identifier: Apache-2.0
// A sink that keeps every event, for tests to look at and, with real threads,
// to wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/engine.hpp"

namespace troupe {

class RecordingSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<TextDelta>(&event)) {
      text_ += delta->text;
      if (counts_unread_) unread_bytes_ += delta->text.size();
    }
    num_terminal_ += is_terminal(event) ? 1 : 0;
    events_.push_back(std::move(event));
    has_changed_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return unread_bytes_.load(); }

  // From now on text counts as unread until read_all().
  void stop_reading() { counts_unread_ = true; }
  void read_all() { unread_bytes_ = 0; }

  std::vector<ResponseEvent> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  int num_terminal() const {
    const std::lock_guard lock(mutex_);
    return num_terminal_;
  }
  bool is_accepted() const {
    const std::lock_guard lock(mutex_);
    return !events_.empty() && std::holds_alternative<Accepted>(events_.front());
  }
  std::optional<Finished> finished() const { return last<Finished>(); }
  std::optional<StoreAnswer> found() const { return last<StoreAnswer>(); }
  std::optional<ApiError> error() const {
    const auto failed = last<Failed>();
    return failed ? std::optional(failed->error) : std::nullopt;
  }
  // False if it has not ended by the deadline.
  bool wait_for_end(std::chrono::milliseconds deadline = std::chrono::seconds(20)) const {
    std::unique_lock lock(mutex_);
    return has_changed_.wait_for(lock, deadline, [this] { return num_terminal_ > 0; });
  }

 private:
  template <class Event>
  std::optional<Event> last() const {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return std::nullopt;
    const auto* event = std::get_if<Event>(&events_.back());
    return event ? std::optional(*event) : std::nullopt;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable has_changed_;
  std::vector<ResponseEvent> events_;
  std::string text_;
  int num_terminal_ = 0;
  std::atomic<bool> counts_unread_ = false;
  std::atomic<std::size_t> unread_bytes_ = 0;
};

}  // namespace troupe
