// SPDX-License-Identifier: Apache-2.0
#include "actors/supervisor.hpp"

#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/gpu_worker.hpp"
#include "actors/request_registry.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// For a worker to end whose device hangs.
constexpr std::chrono::seconds kAbandonTime{30};

}  // namespace

SupervisorActor::behavior_type make_supervisor(SupervisorState::Self self, Environment environment,
                                               DeviceFactory make_device, SupervisedActors actors) {
  follow_rules(self, environment);
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.take_down(message); });
  self->state.initialize(self, std::move(environment), std::move(make_device), std::move(actors));
  return {
      [self](const WorkerReady& message) { self->state.take_ready(message); },
      [self](const WorkerFailed& message) { self->state.take_failure(message); },
      [self](const WorkerStalled& message) { self->state.take_stall(message); },
      [self](const DeathsForgiven& message) { self->state.forgive(message); },
      [self](const StopActors&) { self->state.stop(); },
  };
}

void SupervisorState::initialize(Self self, Environment environment, DeviceFactory make_device,
                                 SupervisedActors actors) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  make_device_ = std::move(make_device);
  actors_ = std::move(actors);
  intensity_.emplace(environment_->options.max_restarts, environment_->options.restart_window);
  self_->monitor(actors_.scheduler);
  self_->monitor(actors_.tier);
  self_->monitor(actors_.encoder);
  if (actors_.store) self_->monitor(actors_.store);
  self_->send(actors_.scheduler, MeetSupervisor{});
  start_worker();
}

void SupervisorState::start_worker() {
  epoch_ += 1;
  is_lost_ = may_restart_ = false;
  worker_ = spawn_on_thread(self_->system(), environment_->has_threads, make_gpu_worker, environment_,
                            make_device_, epoch_, caf::actor_cast<SupervisorActor>(self_), actors_.scheduler);
  self_->monitor(worker_);
  self_->send(worker_, StartDevice{});
}

void SupervisorState::take_ready(const WorkerReady& message) {
  if (message.epoch != epoch_) return;
  ready_epoch_ = epoch_;
  can_abandon_ = message.can_be_abandoned;
  abandoned_.reset();
  log(LogLevel::kInfo, "device ready",
      {{"device", message.description.name},
       {"pages", message.description.num_pages},
       {"epoch", static_cast<std::uint64_t>(message.epoch)}});
}

void SupervisorState::take_failure(const WorkerFailed& message) {
  if (message.epoch == epoch_) lose_worker(message.batch_id, message.reason);
}

// The next worker starts when this one is gone, and its device's memory with it.
void SupervisorState::lose_worker(std::uint64_t batch_id, const std::string& reason) {
  if (is_lost_ || is_stopping_) return;
  is_lost_ = true;
  log(LogLevel::kError, "worker lost", {{"reason", reason}, {"batch", batch_id}});
  if (ready_epoch_ == 0) return fail_engine(*environment_, reason);
  self_->send(actors_.scheduler, WorkerLost{.epoch = epoch_, .batch_id = batch_id});
  may_restart_ = intensity_->may_restart(self_->clock().now(), epoch_);
  if (may_restart_) return;
  const EngineOptions& options = environment_->options;
  fail_engine(*environment_, "the worker died more than " + std::to_string(options.max_restarts) +
                                 " times in " + std::to_string(options.restart_window.count()) +
                                 " s, last: " + reason);
}

void SupervisorState::take_down(const caf::down_msg& message) {
  if (is_stopping_) return;
  const auto is = [&](const auto& actor) { return actor && message.source == actor.address(); };
  if (is(worker_)) {
    lose_worker(0, "the worker ended without a word");
    worker_ = nullptr;
    if (!may_restart_ || environment_->board->state() == EngineState::kFailed) return;
    environment_->metrics.worker_restarts.add();
    return start_worker();
  }
  if (is(actors_.scheduler)) return fail_engine(*environment_, "the scheduler has died");
  if (is(actors_.tier)) return fail_engine(*environment_, "the cache tier has died");
  if (is(actors_.encoder)) return fail_engine(*environment_, "the prompt encoder has died");
  if (is(actors_.store)) return fail_engine(*environment_, "the response store has died");
}

// A device in another process is ended and replaced. One of this process can't be:
// its destructor might never return. The same holds if the worker does not end.
void SupervisorState::take_stall(const WorkerStalled& message) {
  if (message.epoch != ready_epoch_) return;
  const auto now = self_->clock().now();
  if (abandoned_ && now - *abandoned_ < kAbandonTime) return;
  if (message.epoch != epoch_ || !can_abandon_ || abandoned_)
    return fail_engine(*environment_, message.reason);
  abandoned_ = now;
  self_->send(worker_, AbandonDevice{.epoch = epoch_, .reason = message.reason});
}

void SupervisorState::forgive(const DeathsForgiven& message) { intensity_->forgive(message.epochs); }

void SupervisorState::stop() {
  is_stopping_ = true;
  send_stop(worker_);
  send_stop(actors_.encoder);
  send_stop(actors_.store);
  send_stop(actors_.scheduler);
  send_stop(actors_.tier);
  self_->quit();
}

void fail_engine(const ActorEnvironment& environment, const std::string& reason) {
  if (!environment.board->fail(reason)) return;
  log(LogLevel::kError, "engine failed", {{"reason", reason}});
  environment.registry->fail_all(
      {.kind = ApiErrorKind::kUnavailable, .message = "The engine has failed: " + reason + "."});
}

}  // namespace troupe
