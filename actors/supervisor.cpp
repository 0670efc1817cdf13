// SPDX-License-Identifier: Apache-2.0
#include "actors/supervisor.hpp"

#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/gpu_worker.hpp"
#include "actors/request/request_registry.hpp"
#include "telemetry/log.hpp"

namespace troupe {
SupervisorActor::behavior_type make_supervisor(SupervisorState::Self self, Environment environment,
                                               SupervisedActors actors) {
  follow_rules(self, environment);
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.take_down(message); });
  self->state.initialize(self, std::move(environment), std::move(actors));
  return {
      [self](const WorkerReady& message) { self->state.take_ready(message); },
      [self](const WorkerFailed& message) { self->state.take_failure(message); },
      [self](const WorkerStalled& message) { self->state.take_stall(message); },
      [self](const DeathsForgiven& message) { self->state.forgive(message); },
      [self](const CheckPulse& message) { self->state.pass_on(message); },
      [self](const StopActors&) { self->state.stop(); },
  };
}

void SupervisorState::initialize(Self self, Environment environment, SupervisedActors actors) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  actors_ = std::move(actors);
  self_->monitor(actors_.scheduler);
  self_->monitor(actors_.tier);
  self_->monitor(actors_.encoder);
  if (actors_.store) self_->monitor(actors_.store);
  self_->send(actors_.scheduler, MeetSupervisor{});
  const EngineOptions& options = environment_->options;
  for (std::uint32_t i = 0; i < options.num_workers; ++i)
    workers_.push_back({.intensity = {options.max_restarts, options.restart_window}});
  for (WorkerId id = 0; id < workers_.size(); ++id) start_worker(id);
}

void SupervisorState::start_worker(WorkerId id) {
  Worker& worker = workers_[id];
  worker.epoch = ++last_epoch_;
  worker.is_lost = worker.may_restart = false;
  worker.actor =
      spawn_on_thread(self_->system(), environment_->has_threads, make_gpu_worker, environment_, id,
                      worker.epoch, caf::actor_cast<SupervisorActor>(self_), actors_.scheduler);
  self_->monitor(worker.actor);
  self_->send(worker.actor, StartDevice{});
}

void SupervisorState::restart(WorkerId id) {
  environment_->metrics.worker_restarts.add();
  environment_->metrics.workers[id].restarts.add();
  start_worker(id);
}

void SupervisorState::take_ready(const WorkerReady& message) {
  Worker& worker = workers_[message.worker];
  if (message.epoch != worker.epoch) return;
  worker.ready_epoch = worker.epoch;
  worker.is_abandoned = false;
  log(LogLevel::kInfo, "device ready",
      {{"device", message.description.name},
       {"pages", message.description.num_pages},
       {"worker", message.worker},
       {"epoch", static_cast<std::uint64_t>(message.epoch)}});
  publish_workers();
  if (!std::exchange(has_had_device_, true)) restart_those_lost_at_start();
}

// Without any device they would have failed again: now there is one that works.
void SupervisorState::restart_those_lost_at_start() {
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    Worker& worker = workers_[id];
    if (!worker.is_lost) continue;
    worker.may_restart = worker.intensity.may_restart(self_->clock().now(), worker.epoch);
    if (worker.may_restart && !worker.actor) restart(id);
  }
}

void SupervisorState::take_failure(const WorkerFailed& message) {
  if (message.epoch == workers_[message.worker].epoch)
    lose_worker(message.worker, message.batch_id, message.model, message.reason);
}

// The next worker starts when this one is gone, and its device's memory with it.
void SupervisorState::lose_worker(WorkerId id, std::uint64_t batch_id, std::optional<ModelIndex> model,
                                  const std::string& reason) {
  Worker& worker = workers_[id];
  if (worker.is_lost || is_stopping_) return;
  worker.is_lost = true;
  publish_workers();
  log(LogLevel::kError, "worker lost", {{"reason", reason}, {"batch", batch_id}, {"worker", id}});
  if (!has_had_device_) {
    if (!is_other_left(id)) fail_engine(*environment_, reason);
    return;
  }
  self_->send(actors_.scheduler,
              WorkerLost{.worker = id, .epoch = worker.epoch, .batch_id = batch_id, .model = model});
  worker.may_restart = worker.intensity.may_restart(self_->clock().now(), worker.epoch);
  if (worker.may_restart) return;
  const EngineOptions& options = environment_->options;
  const std::string died = "the worker died more than " + std::to_string(options.max_restarts) +
                           " times in " + std::to_string(options.restart_window.count()) +
                           " s, last: " + reason;
  if (!is_other_left(id)) return fail_engine(*environment_, died);
  log(LogLevel::kError, "worker given up", {{"worker", id}, {"reason", died}});
}

// Works, or is being started, or will be.
bool SupervisorState::is_other_left(WorkerId id) const {
  for (WorkerId other = 0; other < workers_.size(); ++other)
    if (other != id && (!workers_[other].is_lost || workers_[other].may_restart)) return true;
  return false;
}

void SupervisorState::publish_workers() const {
  std::uint32_t num_up = 0;
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    const bool is_up = workers_[id].ready_epoch == workers_[id].epoch && !workers_[id].is_lost;
    environment_->metrics.workers[id].up.set(is_up ? 1 : 0);
    num_up += is_up ? 1 : 0;
  }
  environment_->board->num_workers_up = num_up;
}

void SupervisorState::take_worker_down(WorkerId id) {
  lose_worker(id, 0, std::nullopt, "the worker ended without a word");
  workers_[id].actor = nullptr;
  if (workers_[id].may_restart && environment_->board->state() != EngineState::kFailed) restart(id);
}

void SupervisorState::take_down(const caf::down_msg& message) {
  if (is_stopping_) return;
  const auto is = [&](const auto& actor) { return actor && message.source == actor.address(); };
  for (WorkerId id = 0; id < workers_.size(); ++id)
    if (is(workers_[id].actor)) return take_worker_down(id);
  if (is(actors_.scheduler)) return fail_engine(*environment_, "the scheduler has died");
  if (is(actors_.tier)) return fail_engine(*environment_, "the cache tier has died");
  if (is(actors_.encoder)) return fail_engine(*environment_, "the prompt encoder has died");
  if (is(actors_.store)) return fail_engine(*environment_, "the response store has died");
}

// A device in another process is ended and replaced. One of this process can't be:
// its destructor might never return, so the scheduler waits and then says that all
// hope is lost. It says so too if the worker does not end.
void SupervisorState::take_stall(const WorkerStalled& message) {
  Worker& worker = workers_[message.worker];
  if (message.epoch != worker.ready_epoch) return;
  if (message.is_hopeless) return fail_engine(*environment_, message.reason);
  if (message.epoch != worker.epoch || std::exchange(worker.is_abandoned, true)) return;
  self_->send(worker.actor,
              AbandonDevice{.epoch = worker.epoch, .model = message.model, .reason = message.reason});
}

void SupervisorState::forgive(const DeathsForgiven& message) {
  for (Worker& worker : workers_) worker.intensity.forgive(message.epochs);
}

void SupervisorState::pass_on(const CheckPulse& pulse) { send_urgent(actors_.scheduler, pulse); }

void SupervisorState::stop() {
  is_stopping_ = true;
  for (const Worker& worker : workers_) send_stop(worker.actor);
  send_stop(actors_.encoder);
  send_stop_behind_all(actors_.store);  // what it was given is not lost
  send_stop(actors_.scheduler);
  send_stop(actors_.predictor);
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
