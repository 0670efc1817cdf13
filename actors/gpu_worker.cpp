// SPDX-License-Identifier: Apache-2.0
#include "actors/gpu_worker.hpp"

#include <exception>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

namespace troupe {

WorkerActor::behavior_type make_gpu_worker(GpuWorkerState::Self self, Environment environment,
                                           DeviceFactory make_device, Epoch epoch, SupervisorActor supervisor,
                                           SchedulerActor scheduler) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(make_device), epoch, std::move(supervisor),
                         std::move(scheduler));
  return {
      [self](const StartDevice&) { self->state.start_device(); },
      [self](const SubmitBatch& message) { self->state.submit(message); },
      [self](const Doorbell&) { self->state.answer_doorbell(); },
      [self](const PollDevice&) { self->state.poll(); },
      [self](const AbandonDevice& message) { self->state.abandon(message); },
  };
}

void GpuWorkerState::initialize(Self self, Environment environment, DeviceFactory make_device, Epoch epoch,
                                SupervisorActor supervisor, SchedulerActor scheduler) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  make_device_ = std::move(make_device);
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
void GpuWorkerState::start_device() {
  try {
    device_ = make_device_();
    const DeviceDescription& description = device_->description();
    if (environment_->model.network && device_->needs_programs())
      programs_ = std::make_unique<ProgramCache>(
          environment_->model.network, environment_->model.compute_type,
          ProgramShape{.max_tokens = description.max_batch_tokens, .max_output_rows = description.num_slots});
    listen();
    const WorkerReady ready{
        .epoch = epoch_, .description = description, .can_be_abandoned = device_->can_be_abandoned()};
    self_->send(supervisor_, ready);
    self_->send(scheduler_, ready);
  } catch (const std::exception& error) {
    self_->send(supervisor_,
                WorkerFailed{.epoch = epoch_, .batch_id = 0, .was_starting = true, .reason = error.what()});
    has_failed_ = true;
    self_->quit();
  }
}

void GpuWorkerState::listen() {
  // Weak: the device must not keep alive the actor that owns it.
  device_->set_listener([is_rung = is_rung_, worker = self_->address()] {
    if (is_rung->exchange(true)) return;
    if (const auto strong = caf::actor_cast<WorkerActor>(worker)) caf::anon_send(strong, Doorbell{});
  });
}

void GpuWorkerState::submit(const SubmitBatch& message) {
  if (has_failed_ || message.epoch != epoch_) return;
  try {
    const Ticket ticket = device_->submit(program_for(*message.batch), message.batch);
    submitted_.push_back({.ticket = ticket, .batch_id = message.batch->id});
    collect();
    poll_later();
  } catch (const std::exception& error) {
    fail(message.batch->id, error.what());
  }
}

std::shared_ptr<const Program> GpuWorkerState::program_for(const Batch& batch) {
  if (!programs_ || batch.slices.empty()) return nullptr;
  return programs_->find("decoder_step", batch.num_tokens(), batch.num_output_rows());
}

void GpuWorkerState::answer_doorbell() {
  is_rung_->store(false);  // before looking: what is done after this rings again
  collect();
  if (has_failed_ || !device_) return;
  // It died with nothing to do: no batch is to blame.
  if (const std::string fault = device_->fault(); !fault.empty()) fail(0, fault);
}

void GpuWorkerState::poll() {
  is_poll_due_ = false;
  collect();
  poll_later();
}

void GpuWorkerState::collect() {
  if (has_failed_ || !device_) return;
  const Ticket completed = device_->completed();
  while (!submitted_.empty() && submitted_.front().ticket <= completed) {
    const Submitted front = submitted_.front();
    submitted_.pop_front();
    try {
      BatchDone done{.epoch = epoch_, .result = device_->collect(front.ticket)};
      done.result.batch_id = front.batch_id;
      // A device that died with several batches does not say which one did it.
      if (!done.result.error.empty())
        return fail(device_->fault().empty() ? front.batch_id : 0, done.result.error);
      self_->send(scheduler_, std::move(done));
    } catch (const std::exception& error) {
      return fail(front.batch_id, error.what());
    }
  }
}

void GpuWorkerState::poll_later() {
  if (has_failed_ || is_poll_due_ || submitted_.empty()) return;
  const auto delay = device_->poll_delay();
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
  if (!has_failed_ && message.epoch == epoch_) fail(0, message.reason);
}

void GpuWorkerState::fail(std::uint64_t batch_id, const std::string& reason) {
  environment_->metrics.actor_failures.add();
  has_failed_ = true;
  self_->send(supervisor_,
              WorkerFailed{.epoch = epoch_, .batch_id = batch_id, .was_starting = false, .reason = reason});
  self_->quit(caf::sec::runtime_error);
}

}  // namespace troupe
