// SPDX-License-Identifier: Apache-2.0
#include "actors/scheduler.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/model_core_options.hpp"
#include "policy/admitting/admission.hpp"
#include "store/measurement_files.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

ApiErrorKind error_kind_of(SequenceFailure failure) {
  switch (failure) {
    case SequenceFailure::kQueueFull: return ApiErrorKind::kOverloaded;
    case SequenceFailure::kDisplaced: return ApiErrorKind::kDisplaced;
    case SequenceFailure::kQueueTimeout: return ApiErrorKind::kWaitedTooLong;
    case SequenceFailure::kContextTooLong: return ApiErrorKind::kContextTooLong;
    case SequenceFailure::kInvalidRequest: return ApiErrorKind::kInvalidRequest;
    case SequenceFailure::kDeviceFault:
    case SequenceFailure::kKillsWorkers: break;
  }
  return ApiErrorKind::kInternal;
}

// Times of encoders' batches that the cores have learnt, for the next start, which then need not learn them
// again. Nothing happens without a state directory; a failure is logged, since they are only an advantage.
void keep_learnt_costs(const ActorEnvironment& environment, const ModelCores& cores) {
  const auto& directory = environment.options.store.directory;
  for (ModelIndex model = 0; directory && model < cores.num_models(); ++model) {
    const EncoderCore* encoder = cores.encoder(model);
    const std::string& key = environment.models[model].served.encoder_cost_key;
    if (encoder == nullptr || key.empty() || encoder->costs().num_learnt() == 0) continue;
    try {
      write_encoder_costs(*directory, key, encoder->costs());
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, "what was learnt of an encoder's batches is not kept",
          {{"reason", error.what()}});
    }
  }
}

}  // namespace

SchedulerActor::behavior_type make_scheduler(SchedulerState::Self self, Environment environment,
                                             CacheTierActor tier, PredictorActor predictor,
                                             PageSecret secret) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(tier), std::move(predictor), secret);
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.take_down(message.source.id()); });
  return {
      [self](const Admit& message) {
        self->state.admit(message, caf::actor_cast<RequestActor>(self->current_sender()));
      },
      [self](const StopSequence& message) { self->state.stop(message); },
      [self](const PauseSequence& message) { self->state.take(message); },
      [self](const ResumeSequence& message) { self->state.take(message); },
      [self](const AllowTokens& message) { self->state.take(message); },
      [self](const LengthForecast& message) { self->state.take(message); },
      [self](const TransfersDone& message) { self->state.take(message); },
      [self](const DiskShort& message) { self->state.take(message); },
      [self](const DiskMayGrow& message) { self->state.take(message); },
      [self](const ForgetPages& message) { self->state.take(message); },
      [self](const FlushEverything& message) { self->state.flush(message); },
      [self](const WorkerReady& message) {
        self->state.take_worker(message, caf::actor_cast<BatchRunnerActor>(self->current_sender()));
      },
      [self](const BatchDone& message) { self->state.take(message); },
      [self](const WorkerLost& message) { self->state.take(message); },
      [self](const MeetSupervisor&) {
        self->state.set_supervisor(caf::actor_cast<SupervisorActor>(self->current_sender()));
      },
      [self](const SchedulerTick&) { self->state.tick(); },
      [self](const TimerFired& message) { self->state.take(message); },
      [self](const CheckPulse& pulse) { self->state.pass_on(pulse); },
  };
}

void SchedulerState::initialize(Self self, Environment environment, CacheTierActor tier,
                                PredictorActor predictor, PageSecret secret) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  tier_ = std::move(tier);
  predictor_ = std::move(predictor);
  self_->send(tier_, TransferPages{});  // it knows where to answer
  cores_ = ModelCores(model_core_options(*environment_, secret));
  reports_ = std::make_unique<SchedulerReports>(environment_);
}

SchedulerState::~SchedulerState() {
  if (environment_) keep_learnt_costs(*environment_, cores_);
}

void SchedulerState::take(const Event& event) {
  commands_.clear();
  cores_.on(event, self_->clock().now(), commands_);
  for (const Command& command : commands_)  // first: devices wait for them
    if (const auto* batch = std::get_if<SubmitBatch>(&command)) submit(*batch);
  for (const Command& command : commands_) std::visit([this](const auto& what) { execute(what); }, command);
  reports_->publish(cores_);
  keep_ticking();
}

void SchedulerState::admit(const Admit& message, const RequestActor& request) {
  const bool is_new = requests_.add(message.ticket->sequence, request);
  if (is_new) self_->monitor(request);  // should it end without a word, its sequences go too
  take(message);
}

void SchedulerState::stop(const StopSequence& message) {
  requests_.remove(message.sequence);
  take(message);
}

void SchedulerState::take_down(caf::actor_id request) {
  for (const SequenceId sequence : requests_.lose(request)) stop({.sequence = sequence});
}

void SchedulerState::take_worker(const WorkerReady& message, BatchRunnerActor runner) {
  if (message.worker >= runners_.size()) runners_.resize(message.worker + 1);
  runners_[message.worker] = std::move(runner);
  StatusBoard& board = *environment_->board;
  board.set_limits(0, message.description);
  for (ModelIndex model = 1; model <= message.further_models.size(); ++model)
    board.set_limits(model, message.further_models[model - 1].description);
  take(message);
  environment_->board->become_ready();
}

void SchedulerState::flush(const FlushEverything& message) {
  flushes_.emplace(++last_flush_, message.waiting);
  take(FlushPages{.number = last_flush_});
}

void SchedulerState::tick() {
  is_ticking_ = false;
  take(SchedulerTick{});
  environment_->board->num_fetching = static_cast<std::uint32_t>(cores_.num_fetching());
}

void SchedulerState::pass_on(const CheckPulse& pulse) { send_urgent(tier_, pulse); }

void SchedulerState::execute(const Emit& command) {
  const RequestActor* const request = requests_.find(command.sequence);
  if (!request) return;
  reports_->take(command);
  if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    self_->send(*request, RequestFailed{{.kind = error_kind_of(failed->failure),
                                         .message = failed->message,
                                         .field = failed->field},
                                        command.sequence});
  } else {
    std::visit(
        [&](const auto& output) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(output)>, SequenceFailed>)
            self_->send(*request, output);
        },
        command.output);
  }
  if (ends_sequence(command.output)) requests_.remove(command.sequence);
}

void SchedulerState::submit(const SubmitBatch& command) {
  reports_->take(command, cores_, self_->clock().now());
  self_->send(runners_[command.worker], command);
}

void SchedulerState::execute(const TransferPages& command) { self_->send(tier_, command); }

void SchedulerState::execute(const DiskGaveWay& command) { self_->send(tier_, command); }

void SchedulerState::execute(const HandMask& command) {
  if (command.mask) {
    command.slot->set(command.mask);
  } else {
    command.slot->close();
  }
}

void SchedulerState::execute(const WorkerStalled& command) {
  if (supervisor_) self_->send(supervisor_, command);
}

void SchedulerState::execute(const DeathsForgiven& command) {
  if (supervisor_) self_->send(supervisor_, command);
}

// Nothing waits for an answer: where there is none, the core goes on without.
void SchedulerState::execute(const ForecastLength& command) {
  if (predictor_) self_->send(predictor_, command);
}

void SchedulerState::execute(const LearnLength& command) {
  if (predictor_) self_->send(predictor_, command);
}

void SchedulerState::execute(const SetTimer& command) {
  const auto wait = command.time - self_->clock().now();
  self_->delayed_send(self_, std::max(wait, decltype(wait)::zero()), TimerFired{});
}

// Only while there is something to watch over.
void SchedulerState::keep_ticking() {
  if (is_ticking_ || cores_.is_given_up()) return;
  if (cores_.num_sequences() == 0 && cores_.num_in_flight() == 0) return;
  is_ticking_ = true;
  self_->delayed_send(self_, kQueueCheckInterval, SchedulerTick{});
}

}  // namespace troupe
