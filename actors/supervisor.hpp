// SPDX-License-Identifier: Apache-2.0
// Watches over the long-lived actors. A worker that died is replaced by one
// with a new device, unless that happens too often, deaths not counted that a
// request was found to be to blame for; one whose device hangs in a
// process of its own is told to die. A worker that died too often is done without
// while another is left. If none is, or any other actor dies, or a device of this
// process hangs, the engine has failed: every open request is told, and the
// process is expected to end.
//
// A worker is a place with a number and a budget of restarts; its incarnations
// are told apart by their epoch, a number that no other incarnation of any worker has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/health/restart_intensity.hpp"

namespace troupe {

struct SupervisedActors {
  SchedulerActor scheduler;
  CacheTierActor tier;
  PredictorActor predictor;  // null: lengths are not forecast. Its end is no one else's
  PromptEncoderActor encoder;
  ResponseStoreActor store;  // null: nothing is kept
};

class SupervisorState {
 public:
  using Self = SupervisorActor::stateful_pointer<SupervisorState>;
  static inline const char* name = "supervisor";

  void initialize(Self self, Environment environment, SupervisedActors actors);

  void take_ready(const WorkerReady& message);
  void take_failure(const WorkerFailed& message);
  void take_stall(const WorkerStalled& message);
  void forgive(const DeathsForgiven& message);
  void take_down(const caf::down_msg& message);
  void pass_on(const CheckPulse& pulse);
  void stop();

 private:
  struct Worker {
    WorkerActor actor = {};  // null: it is gone
    Epoch epoch = 0;
    Epoch ready_epoch = 0;      // the newest that had a device
    bool is_lost = false;       // its end is known
    bool may_restart = false;   // when it is gone
    bool is_abandoned = false;  // the device of ready_epoch: its worker was told
    RestartIntensity intensity;
  };

  void start_worker(WorkerId id);
  void restart(WorkerId id);
  void restart_those_lost_at_start();
  void lose_worker(WorkerId id, std::uint64_t batch_id, std::optional<ModelIndex> model,
                   const std::string& reason);
  void take_worker_down(WorkerId id);
  bool is_other_left(WorkerId id) const;
  void publish_workers() const;

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  SupervisedActors actors_;
  std::vector<Worker> workers_;  // by WorkerId
  Epoch last_epoch_ = 0;         // of all workers
  bool has_had_device_ = false;  // any of them
  bool is_stopping_ = false;
};

SupervisorActor::behavior_type make_supervisor(SupervisorState::Self self, Environment environment,
                                               SupervisedActors actors);

// Tells the board and every open request; the first reason stays.
void fail_engine(const ActorEnvironment& environment, const std::string& reason);

}  // namespace troupe
