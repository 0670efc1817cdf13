// SPDX-License-Identifier: Apache-2.0
// The state that the engine's actors publish: written by the
// actor that knows, read by any thread without waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "policy/admitting/admission.hpp"

namespace troupe {

class StatusBoard {
 public:
  explicit StatusBoard(std::size_t num_models = 1) : limits_(num_models) {}

  // written by the scheduler
  std::atomic<std::uint32_t> num_waiting{0}, num_running{0}, num_fetching{0};
  std::atomic<Trouble> trouble{Trouble::kNone};  // of the device, or of feeding it
  void set_limits(ModelIndex model, const DeviceDescription& device);
  // written once, before all others
  std::atomic<std::uint32_t> num_workers{1};
  // written by the supervisor
  std::atomic<std::uint32_t> num_workers_up{0};
  // written by the cache tier
  std::atomic<std::uint64_t> pulse{0};  // the newest CheckPulse that came through
  std::atomic<std::uint32_t> pages_total{0}, pages_free{0}, pages_cached{0}, pages_running{0};
  // written by requests
  std::atomic<std::uint32_t> num_open{0};  // not ended
  std::atomic<std::uint32_t> num_encoding{0}, num_in_store{0}, num_paused{0};
  // written by the thread that watches the engine
  std::atomic<bool> has_pulse{true};

  // written by the response store
  std::atomic<StoreState> store_state{StoreState::kNone};
  std::atomic<std::uint32_t> num_saving{0};
  std::atomic<std::uint64_t> store_damages{0}, responses_salvaged{0}, responses_lost{0};

  EngineState state() const { return state_.load(); }
  void become_ready();     // unless it drains or has failed meanwhile
  void become_draining();  // unless it has failed
  void become_stopped();
  // The first reason stays. False if it had failed or stopped before.
  bool fail(const std::string& reason);
  std::string failure() const;

  // Limits of the model's device, without its vocabulary. Zeros: there is no device yet.
  ServingLimits serving_limits(ModelIndex model) const;

  EngineStatus read() const;

 private:
  struct Limits {
    std::atomic<std::uint32_t> context_length{0}, page_capacity{0};
  };
  std::vector<Limits> limits_;  // by ModelIndex
  std::atomic<EngineState> state_{EngineState::kStarting};
  mutable std::mutex failure_mutex_;
  std::string failure_;
};

}  // namespace troupe
