// SPDX-License-Identifier: Apache-2.0
// Feeds the devices of one worker with batches, sees which are done and says what they gave. It is
// told of completions by the devices' listener, at most one message outstanding, or looks itself
// where a device must be polled; either way it collects all that is done in one go.
//
// It shares the actors' thread where no device keeps a caller waiting, so that a batch's end, the
// next batch and the tokens wake one thread (docs/decisions/0035-batches-without-a-thread.md).
//
// A batch that fails, or a device that throws, ends it: it says which batch it was and dies, the
// worker that started it ends the devices behind it (actors/gpu_worker.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

// The device of one model at a worker, with its programs.
struct ProgrammedDevice {
  std::unique_ptr<ProgramCache> programs;  // null: the device takes none
  // Last: its destructor ends its threads, before what they touch is gone.
  std::unique_ptr<Device> device;

  std::shared_ptr<const Program> program_for(const Batch& batch) const;
};
using WorkerDevices = std::vector<ProgrammedDevice>;  // by ModelIndex, at least one

// True: none of their calls keeps a thread from other work.
bool return_at_once(const WorkerDevices& devices);

// A batch runner's worker, and the actors that it speaks to.
struct BatchRunnerPeers {
  WorkerId id = 0;
  Epoch epoch = 0;
  WorkerActor worker;
  SupervisorActor supervisor;
  SchedulerActor scheduler;
};

class BatchRunnerState {
 public:
  using Self = BatchRunnerActor::stateful_pointer<BatchRunnerState>;
  static inline const char* name = "batch_runner";

  void initialize(Self self, Environment environment, BatchRunnerPeers peers,
                  std::shared_ptr<const WorkerDevices> devices);

  void submit(const SubmitBatch& message);
  void answer_doorbell();
  void poll();
  void abandon(const AbandonDevice& message);

 private:
  struct Submitted {
    Ticket ticket = 0;
    std::uint64_t batch_id = 0;
  };

  void announce();
  void listen(Device& device);
  void collect();
  bool collect(ModelIndex model);
  void poll_later();
  void fail(ModelIndex model, std::uint64_t batch_id, const std::string& reason);  // 0: any in flight

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  BatchRunnerPeers peers_;
  std::shared_ptr<const WorkerDevices> devices_;  // the worker's, which outlives this
  std::vector<std::deque<Submitted>> submitted_;  // by ModelIndex: the batches in flight
  std::shared_ptr<std::atomic<bool>> is_rung_;    // a doorbell message is on its way
  bool is_poll_due_ = false;
  bool has_failed_ = false;
};

BatchRunnerActor::behavior_type make_batch_runner(BatchRunnerState::Self self, Environment environment,
                                                  BatchRunnerPeers peers,
                                                  std::shared_ptr<const WorkerDevices> devices);

}  // namespace troupe
