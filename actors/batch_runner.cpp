// SPDX-License-Identifier: Apache-2.0
#include "actors/batch_runner.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

std::shared_ptr<const Program> ProgrammedDevice::program_for(const Batch& batch) const {
  if (!programs || batch.slices.empty()) return nullptr;
  return programs->find(batch.cell, batch.num_tokens(), batch.num_output_rows());
}

bool return_at_once(const WorkerDevices& devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [](const ProgrammedDevice& model) { return model.device->returns_at_once(); });
}

BatchRunnerActor::behavior_type make_batch_runner(BatchRunnerState::Self self, Environment environment,
                                                  BatchRunnerPeers peers,
                                                  std::shared_ptr<const WorkerDevices> devices) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(peers), std::move(devices));
  return {
      [self](const SubmitBatch& message) { self->state.submit(message); },
      [self](const Doorbell&) { self->state.answer_doorbell(); },
      [self](const PollDevice&) { self->state.poll(); },
      [self](const AbandonDevice& message) { self->state.abandon(message); },
  };
}

void BatchRunnerState::initialize(Self self, Environment environment, BatchRunnerPeers peers,
                                  std::shared_ptr<const WorkerDevices> devices) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  peers_ = std::move(peers);
  devices_ = std::move(devices);
  submitted_.resize(devices_->size());
  is_rung_ = std::make_shared<std::atomic<bool>>(false);
  // Without its worker nothing would end it.
  self_->monitor(peers_.worker);
  self_->set_down_handler([](caf::scheduled_actor* actor, caf::down_msg&) { actor->quit(); });
  for (const ProgrammedDevice& model : *devices_) listen(*model.device);
  announce();
}

// To the scheduler as the sender: batches come here.
void BatchRunnerState::announce() {
  const Device& first = *devices_->front().device;
  WorkerReady ready{.worker = peers_.id,
                    .epoch = peers_.epoch,
                    .description = first.description(),
                    .can_be_abandoned = first.can_be_abandoned()};
  for (std::size_t model = 1; model < devices_->size(); ++model) {
    const Device& device = *(*devices_)[model].device;
    ready.further_models.push_back(
        {.description = device.description(), .can_be_abandoned = device.can_be_abandoned()});
  }
  self_->send(peers_.supervisor, ready);
  self_->send(peers_.scheduler, ready);
}

void BatchRunnerState::listen(Device& device) {
  // Weak: the device must not keep alive the actor that uses it.
  device.set_listener([is_rung = is_rung_, runner = self_->address()] {
    if (is_rung->exchange(true)) return;
    if (const auto strong = caf::actor_cast<BatchRunnerActor>(runner)) caf::anon_send(strong, Doorbell{});
  });
}

void BatchRunnerState::submit(const SubmitBatch& message) {
  if (has_failed_ || message.epoch != peers_.epoch) return;
  const ProgrammedDevice& model = (*devices_)[message.model];
  try {
    const Ticket ticket = model.device->submit(model.program_for(*message.batch), message.batch);
    submitted_[message.model].push_back({.ticket = ticket, .batch_id = message.batch->id});
    collect();
    poll_later();
  } catch (const std::exception& error) {
    fail(message.model, message.batch->id, error.what());
  }
}

void BatchRunnerState::answer_doorbell() {
  // Before looking: what is done after this rings again. An exchange, so that what was done before a ring
  // that found the bell rung is seen.
  is_rung_->exchange(false);
  collect();
  for (ModelIndex model = 0; model < devices_->size() && !has_failed_; ++model)
    // It died with nothing to do: no batch is to blame.
    if (const std::string fault = (*devices_)[model].device->fault(); !fault.empty()) fail(model, 0, fault);
}

void BatchRunnerState::poll() {
  is_poll_due_ = false;
  collect();
  poll_later();
}

void BatchRunnerState::collect() {
  if (has_failed_) return;
  for (ModelIndex model = 0; model < devices_->size(); ++model)
    if (!collect(model)) return;
}

// False: the runner has failed.
bool BatchRunnerState::collect(ModelIndex model) {
  Device& device = *(*devices_)[model].device;
  std::deque<Submitted>& submitted = submitted_[model];
  const Ticket completed = device.completed();
  while (!submitted.empty() && submitted.front().ticket <= completed) {
    const Submitted front = submitted.front();
    submitted.pop_front();
    try {
      BatchDone done{
          .worker = peers_.id, .epoch = peers_.epoch, .result = device.collect(front.ticket), .model = model};
      done.result.batch_id = front.batch_id;
      if (!done.result.error.empty()) {
        // A device that died with several batches does not say which one did it.
        fail(model, device.fault().empty() ? front.batch_id : 0, done.result.error);
        return false;
      }
      self_->send(peers_.scheduler, std::move(done));
    } catch (const std::exception& error) {
      fail(model, front.batch_id, error.what());
      return false;
    }
  }
  return true;
}

void BatchRunnerState::poll_later() {
  if (has_failed_ || is_poll_due_) return;
  std::optional<std::chrono::nanoseconds> delay;
  for (ModelIndex model = 0; model < devices_->size(); ++model) {
    if (submitted_[model].empty()) continue;
    const auto wanted = (*devices_)[model].device->poll_delay();
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

void BatchRunnerState::abandon(const AbandonDevice& message) {
  if (!has_failed_ && message.epoch == peers_.epoch) fail(message.model, 0, message.reason);
}

void BatchRunnerState::fail(ModelIndex model, std::uint64_t batch_id, const std::string& reason) {
  environment_->metrics.actor_failures.add();
  has_failed_ = true;
  self_->send(peers_.supervisor, WorkerFailed{.worker = peers_.id,
                                              .epoch = peers_.epoch,
                                              .batch_id = batch_id,
                                              .model = model,
                                              .was_starting = false,
                                              .reason = reason});
  self_->quit(caf::sec::runtime_error);
}

}  // namespace troupe
