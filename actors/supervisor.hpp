// SPDX-License-Identifier: Apache-2.0
// Watches over the long-lived actors. A worker that died is replaced by one
// with a new device, unless that happens too often, deaths not counted that a
// request was found to be to blame for; one whose device hangs in a
// process of its own is told to die. If any other actor dies, or a device of
// this process hangs, the engine has failed: every open request is told, and the
// process is expected to end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/restart_intensity.hpp"

namespace troupe {

struct SupervisedActors {
  SchedulerActor scheduler;
  CacheTierActor tier;
  PromptEncoderActor encoder;
  ResponseStoreActor store;  // null: nothing is kept
};

class SupervisorState {
 public:
  using Self = SupervisorActor::stateful_pointer<SupervisorState>;
  static inline const char* name = "supervisor";

  void initialize(Self self, Environment environment, DeviceFactory make_device, SupervisedActors actors);

  void take_ready(const WorkerReady& message);
  void take_failure(const WorkerFailed& message);
  void take_stall(const WorkerStalled& message);
  void forgive(const DeathsForgiven& message);
  void take_down(const caf::down_msg& message);
  void stop();

 private:
  void start_worker();
  void lose_worker(std::uint64_t batch_id, const std::string& reason);

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  DeviceFactory make_device_;
  SupervisedActors actors_;
  WorkerActor worker_;  // null once it has died and will not be replaced
  Epoch epoch_ = 0;
  Epoch ready_epoch_ = 0;     // the newest that had a device
  bool is_lost_ = false;      // the worker's end is known, but it is not gone yet
  bool may_restart_ = false;  // when it is gone
  bool can_abandon_ = false;  // the device of ready_epoch_
  std::optional<std::chrono::steady_clock::time_point> abandoned_;  // when that was done
  bool is_stopping_ = false;
  std::optional<RestartIntensity> intensity_;
};

SupervisorActor::behavior_type make_supervisor(SupervisorState::Self self, Environment environment,
                                               DeviceFactory make_device, SupervisedActors actors);

// Tells the board and every open request; the first reason stays.
void fail_engine(const ActorEnvironment& environment, const std::string& reason);

}  // namespace troupe
