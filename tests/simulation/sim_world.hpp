// SPDX-License-Identifier: Apache-2.0
// The real actors in a world that a seed decides: which actor handles its next
// message, what time it is, when devices finish. One thread; the same seed
// gives the same run, step by step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/actor_engine.hpp"
#include "actors/cache_tier.hpp"
#include "actors/scheduler.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "tests/simulation/sim_cells.hpp"
#include "tests/simulation/sim_device.hpp"
#include "tests/simulation/sim_disk.hpp"
#include "tests/simulation/sim_encoder.hpp"

namespace troupe::sim {

struct SimSettings {
  // Without a seed actors take turns in order of arrival.
  std::optional<std::uint64_t> seed;
  SimDeviceSettings device;
  SimDiskSettings disk;
  std::optional<SimDeviceSettings> encoder;      // of another model, which encodes
  bool encoder_is_first = false;                 // the model's index is 0 then, not 1
  std::optional<SimDeviceSettings> second_chat;  // of another chat model, behind these
  std::vector<SimCellSettings> cells;            // of the last models, whose cells keep rows; no kind twice
  EngineOptions options;
  Tracer* tracer = nullptr;                           // outlives the world
  std::shared_ptr<const ChatTemplate> chat_template;  // null: the model has none
  std::shared_ptr<const Tokenizer> tokenizer;         // null: ByteTokenizer
  std::optional<std::uint64_t> fingerprint = 5;       // of the first chat model
  std::optional<std::uint64_t> encoder_fingerprint = 6;
  // Asked for the n-th device, from 1; true: the factory throws.
  std::function<bool(std::uint64_t)> fails_to_start;

  ModelIndex second_chat_index() const { return encoder ? 2 : 1; }
  const SimDeviceSettings& chat(ModelIndex model) const {
    return second_chat && model == second_chat_index() ? *second_chat : device;
  }
};

// Defaults that suit tests: small pages, few of them.
SimSettings small_settings();

class SimWorld {
 public:
  explicit SimWorld(SimSettings settings);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  ActorEngine& engine() { return *engine_; }
  SimDevices& devices() { return *devices_; }
  Metrics& metrics() { return metrics_; }
  const SimSettings& engine_settings() const { return settings_; }
  caf::actor_system& system() { return *system_; }

  TimePoint now() const;
  // `action` happens when virtual time has come so far.
  void at(TimePoint time, std::function<void()> action);
  void after(std::chrono::nanoseconds delay, std::function<void()> action);
  // `action` happens in the midst of things: after so many more messages, or
  // when nobody has any.
  void after_steps(std::uint64_t num_steps, std::function<void()> action);

  // One message; false if no actor has any.
  bool step();
  // Messages until nobody has any; time stands still.
  void settle();
  // To the next moment at which anything happens; false if nothing ever will.
  bool advance();
  // Runs until nothing ever happens again, or `is_enough`, looked at whenever
  // nobody has a message. False if that takes more than max_steps messages.
  bool run(const std::function<bool()>& is_enough = {}, std::uint64_t max_steps = 1'000'000);
  void run_for(std::chrono::nanoseconds time);
  // Time passes and nothing happens: as when the process was stopped.
  void stand_still(std::chrono::nanoseconds time);

  // Looks into the actors' states; between messages only.
  const PageMap& pages();
  SchedulerState& scheduler();

  // As /metrics shows it; 0 if there is none of that name.
  double metric(const std::string& name) const;

  // The run so far in one number.
  std::uint64_t trace_hash() const { return trace_hash_; }
  void trace(std::uint64_t value);
  std::uint64_t num_steps() const { return num_steps_; }

 private:
  struct Config : caf::actor_system_config {
    Config();
  };

  caf::scheduler::test_coordinator& coordinator() const;
  TimePoint next_event() const;
  void pick_job();
  bool act_at_step();

  SimSettings settings_;
  std::mt19937_64 random_;
  Metrics metrics_{"simulation"};
  std::shared_ptr<SimDevices> devices_;
  std::multimap<TimePoint, std::function<void()>> agenda_;
  std::multimap<std::uint64_t, std::function<void()>> step_agenda_;
  std::uint64_t trace_hash_ = 0;
  std::uint64_t num_steps_ = 0;
  Config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<ActorEngine> engine_;
};

}  // namespace troupe::sim
