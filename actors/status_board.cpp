// SPDX-License-Identifier: Apache-2.0
#include "actors/status_board.hpp"

#include "policy/iteration_time.hpp"

namespace troupe {

void StatusBoard::become_ready() {
  auto expected = EngineState::kStarting;
  state_.compare_exchange_strong(expected, EngineState::kReady);
}

void StatusBoard::become_draining() {
  auto seen = state_.load();
  while (seen == EngineState::kStarting || seen == EngineState::kReady)
    if (state_.compare_exchange_weak(seen, EngineState::kDraining)) return;
}

void StatusBoard::become_stopped() {
  auto seen = state_.load();
  while (seen != EngineState::kFailed && seen != EngineState::kStopped)
    if (state_.compare_exchange_weak(seen, EngineState::kStopped)) return;
}

bool StatusBoard::fail(const std::string& reason) {
  const std::lock_guard lock(failure_mutex_);
  auto seen = state_.load();
  while (seen != EngineState::kFailed && seen != EngineState::kStopped) {
    if (!state_.compare_exchange_weak(seen, EngineState::kFailed)) continue;
    failure_ = reason;
    return true;
  }
  return false;
}

std::string StatusBoard::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void StatusBoard::mark_progress(TimePoint now) {
  last_progress_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

EngineStatus StatusBoard::read(TimePoint now) const {
  EngineStatus status;
  status.state = state();
  status.num_waiting = num_waiting.load(std::memory_order_relaxed);
  status.num_running = num_running.load(std::memory_order_relaxed);
  status.pages_total = pages_total.load(std::memory_order_relaxed);
  status.pages_free = pages_free.load(std::memory_order_relaxed);
  status.pages_cached = pages_cached.load(std::memory_order_relaxed);
  status.pages_running = pages_running.load(std::memory_order_relaxed);
  status.tokens_move = do_tokens_move(now);
  return status;
}

bool StatusBoard::do_tokens_move(TimePoint now) const {
  if (state() == EngineState::kFailed) return false;
  // Paused requests wait for their clients, not for us.
  if (num_open.load() <= num_paused.load()) return true;
  const TimePoint last{TimePoint::duration(last_progress_.load(std::memory_order_relaxed))};
  const std::chrono::nanoseconds predicted(predicted_nanoseconds.load(std::memory_order_relaxed));
  return now - last < stall_threshold(predicted);
}

}  // namespace troupe
