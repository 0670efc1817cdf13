// SPDX-License-Identifier: Apache-2.0
// Owns the devices of one worker, one for each model: starts them, feeds them batches,
// sees which are done and says what they gave. It is told of completions by the devices' listener, at most
// one message outstanding, or looks itself where the device must be polled;
// either way it collects all that is done in one go.
//
// A batch that fails, or a device that throws, ends it: it says which batch it
// was and dies; the supervisor starts another with a new device. So does one whose
// device hangs and can be abandoned, when the supervisor says so.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

class GpuWorkerState {
 public:
  using Self = WorkerActor::stateful_pointer<GpuWorkerState>;
  static inline const char* name = "gpu_worker";

  void initialize(Self self, Environment environment, WorkerId worker, Epoch epoch,
                  SupervisorActor supervisor, SchedulerActor scheduler);

  void start_devices();
  void submit(const SubmitBatch& message);
  void answer_doorbell();
  void poll();
  void abandon(const AbandonDevice& message);

 private:
  struct Submitted {
    Ticket ticket = 0;
    std::uint64_t batch_id = 0;
  };
  // The device of one model, with its programs and the batches in flight.
  struct Runner {
    std::unique_ptr<ProgramCache> programs;
    std::deque<Submitted> submitted;
    // Last: its destructor ends its threads, before what they touch is gone.
    std::unique_ptr<Device> device;

    std::shared_ptr<const Program> program_for(const Batch& batch) const;
  };

  Runner make_runner(const EngineModel& model) const;
  void listen(Device& device);
  void collect();
  bool collect(ModelIndex model);
  void poll_later();
  void fail(ModelIndex model, std::uint64_t batch_id, const std::string& reason);  // 0: any in flight

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  WorkerId worker_ = 0;
  Epoch epoch_ = 0;
  SupervisorActor supervisor_;
  SchedulerActor scheduler_;
  std::shared_ptr<std::atomic<bool>> is_rung_;  // a doorbell message is on its way
  bool is_poll_due_ = false;
  bool has_failed_ = false;
  std::vector<Runner> runners_;  // by ModelIndex; empty until all devices are there
};

WorkerActor::behavior_type make_gpu_worker(GpuWorkerState::Self self, Environment environment,
                                           WorkerId worker, Epoch epoch, SupervisorActor supervisor,
                                           SchedulerActor scheduler);

}  // namespace troupe
