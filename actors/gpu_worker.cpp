// SPDX-License-Identifier: Apache-2.0
#include "actors/gpu_worker.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

namespace troupe {

WorkerActor::behavior_type make_gpu_worker(GpuWorkerState::Self self, Environment environment,
                                           WorkerId worker, Epoch epoch, SupervisorActor supervisor,
                                           SchedulerActor scheduler) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), worker, epoch, std::move(supervisor),
                         std::move(scheduler));
  return {
      [self](const StartDevice&) { self->state.start_devices(); },
      [self](const SubmitBatch& message) { self->state.submit(message); },
      [self](const Doorbell&) { self->state.answer_doorbell(); },
      [self](const PollDevice&) { self->state.poll(); },
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
  is_rung_ = std::make_shared<std::atomic<bool>>(false);
  // Without its supervisor nobody could end it, and its thread would keep the
  // process from ending.
  self_->monitor(supervisor_);
  self_->set_down_handler([](caf::scheduled_actor* actor, caf::down_msg&) { actor->quit(); });
}

// Loads weights, so it may take long; this actor has a thread of its own.
void GpuWorkerState::start_devices() {
  try {
    std::vector<Runner> runners;
    for (const EngineModel& model : environment_->models) runners.push_back(make_runner(model));
    runners_ = std::move(runners);
    const Device& first = *runners_.front().device;
    WorkerReady ready{.worker = worker_,
                      .epoch = epoch_,
                      .description = first.description(),
                      .can_be_abandoned = first.can_be_abandoned()};
    for (const Runner& runner : runners_) {
      listen(*runner.device);
      if (runner.device.get() != &first)
        ready.further_models.push_back({.description = runner.device->description(),
                                        .can_be_abandoned = runner.device->can_be_abandoned()});
    }
    self_->send(supervisor_, ready);
    self_->send(scheduler_, ready);
  } catch (const std::exception& error) {
    self_->send(
        supervisor_,
        WorkerFailed{
            .worker = worker_, .epoch = epoch_, .batch_id = 0, .was_starting = true, .reason = error.what()});
    has_failed_ = true;
    self_->quit();
  }
}

GpuWorkerState::Runner GpuWorkerState::make_runner(const EngineModel& model) const {
  Runner runner;
  runner.device = model.make_device(worker_);
  const DeviceDescription& description = runner.device->description();
  if (model.served.network && runner.device->needs_programs())
    runner.programs = std::make_unique<ProgramCache>(
        model.served.network, model.served.compute_type,
        ProgramShape{.max_tokens = description.max_batch_tokens, .max_output_rows = description.num_slots});
  return runner;
}

void GpuWorkerState::listen(Device& device) {
  // Weak: the device must not keep alive the actor that owns it.
  device.set_listener([is_rung = is_rung_, worker = self_->address()] {
    if (is_rung->exchange(true)) return;
    if (const auto strong = caf::actor_cast<WorkerActor>(worker)) caf::anon_send(strong, Doorbell{});
  });
}

void GpuWorkerState::submit(const SubmitBatch& message) {
  if (has_failed_ || message.epoch != epoch_) return;
  Runner& runner = runners_[message.model];
  try {
    const Ticket ticket = runner.device->submit(runner.program_for(*message.batch), message.batch);
    runner.submitted.push_back({.ticket = ticket, .batch_id = message.batch->id});
    collect();
    poll_later();
  } catch (const std::exception& error) {
    fail(message.model, message.batch->id, error.what());
  }
}

std::shared_ptr<const Program> GpuWorkerState::Runner::program_for(const Batch& batch) const {
  if (!programs || batch.slices.empty()) return nullptr;
  return programs->find(batch.cell, batch.num_tokens(), batch.num_output_rows());
}

void GpuWorkerState::answer_doorbell() {
  // Before looking: what is done after this rings again. An exchange, so that what was done before a ring
  // that found the bell rung is seen.
  is_rung_->exchange(false);
  collect();
  for (ModelIndex model = 0; model < runners_.size() && !has_failed_; ++model)
    // It died with nothing to do: no batch is to blame.
    if (const std::string fault = runners_[model].device->fault(); !fault.empty()) fail(model, 0, fault);
}

void GpuWorkerState::poll() {
  is_poll_due_ = false;
  collect();
  poll_later();
}

void GpuWorkerState::collect() {
  if (has_failed_) return;
  for (ModelIndex model = 0; model < runners_.size(); ++model)
    if (!collect(model)) return;
}

// False: the worker has failed.
bool GpuWorkerState::collect(ModelIndex model) {
  auto& [programs, submitted, device] = runners_[model];
  const Ticket completed = device->completed();
  while (!submitted.empty() && submitted.front().ticket <= completed) {
    const Submitted front = submitted.front();
    submitted.pop_front();
    try {
      BatchDone done{
          .worker = worker_, .epoch = epoch_, .result = device->collect(front.ticket), .model = model};
      done.result.batch_id = front.batch_id;
      if (!done.result.error.empty()) {
        // A device that died with several batches does not say which one did it.
        fail(model, device->fault().empty() ? front.batch_id : 0, done.result.error);
        return false;
      }
      self_->send(scheduler_, std::move(done));
    } catch (const std::exception& error) {
      fail(model, front.batch_id, error.what());
      return false;
    }
  }
  return true;
}

void GpuWorkerState::poll_later() {
  if (has_failed_ || is_poll_due_) return;
  std::optional<std::chrono::nanoseconds> delay;
  for (const Runner& runner : runners_) {
    if (runner.submitted.empty()) continue;
    const auto wanted = runner.device->poll_delay();
    if (wanted && (!delay || *wanted < *delay)) delay = wanted;
  }
  if (!delay) return;
  is_poll_due_ = true;
  if (delay->count() > 0) {
    self_->delayed_send(self_, *delay, PollDevice{});
  } else {
    self_->send(self_, PollDevice{});  // behind what else has come in
  }
}

// Its destructor ends the device, however it hangs.
void GpuWorkerState::abandon(const AbandonDevice& message) {
  if (!has_failed_ && message.epoch == epoch_) fail(message.model, 0, message.reason);
}

void GpuWorkerState::fail(ModelIndex model, std::uint64_t batch_id, const std::string& reason) {
  environment_->metrics.actor_failures.add();
  has_failed_ = true;
  self_->send(supervisor_, WorkerFailed{.worker = worker_,
                                        .epoch = epoch_,
                                        .batch_id = batch_id,
                                        .model = model,
                                        .was_starting = false,
                                        .reason = reason});
  self_->quit(caf::sec::runtime_error);
}

}  // namespace troupe
