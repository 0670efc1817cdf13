// SPDX-License-Identifier: Apache-2.0
// What the engine's actors tell the outside about themselves: written by the
// actor that knows, read by any thread without waiting.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "actors/engine.hpp"

namespace troupe {

class StatusBoard {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // written by the scheduler
  std::atomic<std::uint32_t> num_waiting{0}, num_running{0};
  std::atomic<std::int64_t> predicted_nanoseconds{0};  // of the longest batch in flight
  // written by the cache tier
  std::atomic<std::uint32_t> pages_total{0}, pages_free{0}, pages_cached{0}, pages_running{0};
  // written by requests
  std::atomic<std::uint32_t> num_open{0};        // not ended
  std::atomic<std::uint32_t> num_unadmitted{0};  // of these, not yet seen by the scheduler
  std::atomic<std::uint32_t> num_paused{0};

  EngineState state() const { return state_.load(); }
  void become_ready();     // unless it drains or has failed meanwhile
  void become_draining();  // unless it has failed
  void become_stopped();
  // The first reason stays. False if it had failed or stopped before.
  bool fail(const std::string& reason);
  std::string failure() const;

  // A batch was done, or work came after a time without.
  void mark_progress(TimePoint now);

  EngineStatus read(TimePoint now) const;

 private:
  bool do_tokens_move(TimePoint now) const;

  std::atomic<EngineState> state_{EngineState::kStarting};
  std::atomic<TimePoint::rep> last_progress_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;
};

}  // namespace troupe
