// SPDX-License-Identifier: Apache-2.0
#include "actors/reports/status_board.hpp"

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

// An encoder's inputs need no pages.
void StatusBoard::set_limits(ModelIndex model, const DeviceDescription& device) {
  const bool has_pages = device.cells.empty() || device.cells.front().state == StateKind::kPages;
  limits_[model].context_length = device.context_length;
  limits_[model].page_capacity = has_pages ? device.num_pages * device.page_size : device.context_length;
}

ServingLimits StatusBoard::serving_limits(ModelIndex model) const {
  return {.context_length = limits_[model].context_length.load(std::memory_order_relaxed),
          .page_capacity = limits_[model].page_capacity.load(std::memory_order_relaxed)};
}

EngineStatus StatusBoard::read() const {
  EngineStatus status;
  status.state = state();
  status.trouble = has_pulse ? trouble.load() : Trouble::kEngineHangs;
  status.num_workers_up = num_workers_up.load(std::memory_order_relaxed);
  status.num_workers = num_workers.load(std::memory_order_relaxed);
  status.num_encoding = num_encoding.load(std::memory_order_relaxed);
  status.num_in_store = num_in_store.load(std::memory_order_relaxed);
  status.num_waiting = num_waiting.load(std::memory_order_relaxed);
  status.num_fetching = num_fetching.load(std::memory_order_relaxed);
  status.num_running = num_running.load(std::memory_order_relaxed);
  status.num_paused = num_paused.load(std::memory_order_relaxed);
  status.pages_total = pages_total.load(std::memory_order_relaxed);
  status.pages_free = pages_free.load(std::memory_order_relaxed);
  status.pages_cached = pages_cached.load(std::memory_order_relaxed);
  status.pages_running = pages_running.load(std::memory_order_relaxed);
  status.store = {.state = store_state.load(std::memory_order_relaxed),
                  .num_saving = num_saving.load(std::memory_order_relaxed),
                  .num_damages = store_damages.load(std::memory_order_relaxed),
                  .num_salvaged = responses_salvaged.load(std::memory_order_relaxed),
                  .num_lost = responses_lost.load(std::memory_order_relaxed)};
  return status;
}

}  // namespace troupe
