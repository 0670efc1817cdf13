// SPDX-License-Identifier: Apache-2.0
#include "actors/gpu_worker.hpp"

#include <exception>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

WorkerActor::behavior_type make_gpu_worker(GpuWorkerState::Self self, Environment environment,
                                           WorkerId worker, Epoch epoch, SupervisorActor supervisor,
                                           SchedulerActor scheduler) {
  follow_rules(self, environment);
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.take_down(message); });
  self->set_exit_handler([self](caf::scheduled_actor*, caf::exit_msg&) { self->state.end(); });
  self->state.initialize(self, std::move(environment), worker, epoch, std::move(supervisor),
                         std::move(scheduler));
  return {
      [self](const StartDevice&) { self->state.start_devices(); },
      [self](const AbandonDevice& message) { self->state.abandon(message); },
  };
}

void GpuWorkerState::initialize(Self self, Environment environment, WorkerId worker, Epoch epoch,
                                SupervisorActor supervisor, SchedulerActor scheduler) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  worker_ = worker;
  epoch_ = epoch;
  supervisor_ = std::move(supervisor);
  scheduler_ = std::move(scheduler);
  // Without its supervisor nothing would end it, and its thread would keep the
  // process from ending.
  self_->monitor(supervisor_);
}

// Loads weights, so it may take long.
void GpuWorkerState::start_devices() {
  try {
    auto devices = std::make_shared<WorkerDevices>();
    for (const EngineModel& model : environment_->models) devices->push_back(make_device(model));
    devices_ = std::move(devices);
    start_runner();
  } catch (const std::exception& error) {
    fail_to_start(error.what());
  }
}

ProgrammedDevice GpuWorkerState::make_device(const EngineModel& model) const {
  ProgrammedDevice made;
  made.device = model.make_device(worker_);
  const DeviceDescription& description = made.device->description();
  if (model.served.network && made.device->needs_programs())
    made.programs = std::make_unique<ProgramCache>(
        model.served.network, model.served.compute_type,
        ProgramShape{.max_tokens = description.max_batch_tokens, .max_output_rows = description.num_slots});
  return made;
}

void GpuWorkerState::start_runner() {
  const bool needs_thread = environment_->has_threads && !return_at_once(*devices_);
  this_actor_ = caf::actor_cast<WorkerActor>(self_);
  BatchRunnerPeers peers{.id = worker_,
                         .epoch = epoch_,
                         .worker = this_actor_,
                         .supervisor = supervisor_,
                         .scheduler = scheduler_};
  runner_ = spawn_on_thread(self_->system(), needs_thread, make_batch_runner, environment_, std::move(peers),
                            devices_);
  self_->monitor(runner_);
}

void GpuWorkerState::fail_to_start(const std::string& reason) {
  self_->send(supervisor_,
              WorkerFailed{
                  .worker = worker_, .epoch = epoch_, .batch_id = 0, .was_starting = true, .reason = reason});
  self_->quit();
}

// The runner's last words are the reason, and its end this one's.
void GpuWorkerState::abandon(const AbandonDevice& message) {
  if (runner_) self_->send(runner_, message);
}

void GpuWorkerState::take_down(const caf::down_msg& message) {
  if (message.source == supervisor_.address()) return end();
  self_->quit(message.reason);
}

void GpuWorkerState::end() {
  if (!runner_) return self_->quit();
  send_stop(runner_);
}

}  // namespace troupe
