// SPDX-License-Identifier: Apache-2.0
// Owns the devices of one worker, one for each model: starts them, has a batch runner
// (actors/batch_runner.hpp) use them, and ends them when that one is gone. Both may take long, and the
// end of a device that hangs for ever, so it has a thread of its own. Its runner's end is its own; the
// supervisor starts another with new devices then.
#pragma once

#include <memory>
#include <string>

#include "actors/actor_rules.hpp"
#include "actors/batch_runner.hpp"
#include "actors/message_types.hpp"

namespace troupe {

class GpuWorkerState {
 public:
  using Self = WorkerActor::stateful_pointer<GpuWorkerState>;
  static inline const char* name = "gpu_worker";

  void initialize(Self self, Environment environment, WorkerId worker, Epoch epoch,
                  SupervisorActor supervisor, SchedulerActor scheduler);

  void start_devices();
  void abandon(const AbandonDevice& message);
  void take_down(const caf::down_msg& message);
  // Once nothing uses the devices: at once, or when the runner has ended.
  void end();

 private:
  ProgrammedDevice make_device(const EngineModel& model) const;
  void start_runner();
  void fail_to_start(const std::string& reason);

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  WorkerId worker_ = 0;
  Epoch epoch_ = 0;
  SupervisorActor supervisor_;
  SchedulerActor scheduler_;
  BatchRunnerActor runner_;                 // null until all devices are there
  std::shared_ptr<WorkerDevices> devices_;  // so, too
  // So, too: CAF destroys an actor that waits and that nothing knows any more, on whichever thread forgot
  // it. This one waits for its runner's end, to end its devices then.
  WorkerActor this_actor_;
};

WorkerActor::behavior_type make_gpu_worker(GpuWorkerState::Self self, Environment environment,
                                           WorkerId worker, Epoch epoch, SupervisorActor supervisor,
                                           SchedulerActor scheduler);

}  // namespace troupe
