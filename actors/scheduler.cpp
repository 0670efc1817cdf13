// SPDX-License-Identifier: Apache-2.0
#include "actors/scheduler.hpp"

#include <algorithm>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

namespace troupe {

SchedulerActor::behavior_type make_scheduler(SchedulerState::Self self, Environment environment,
                                             CacheTierActor tier) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(tier));
  self->set_down_handler(
      [self](caf::scheduled_actor*, caf::down_msg& message) { self->state.take_down(message.source.id()); });
  return {
      [self](const Admit& message) {
        self->state.admit(message, caf::actor_cast<RequestActor>(self->current_sender()));
      },
      [self](const StopSequence& message) { self->state.stop(message.sequence); },
      [self](const PauseSequence& message) { self->state.pause(message.sequence); },
      [self](const ResumeSequence& message) { self->state.resume(message.sequence); },
      [self](const PagesReserved& message) { self->state.take_reserved(message); },
      [self](const PagesExtended& message) { self->state.take_extended(message); },
      [self](const MovePages& message) { self->state.take_moves(message); },
      [self](const PagesFetched& message) { self->state.take_fetched(message); },
      [self](const FlushPages& message) { self->state.flush(message); },
      [self](const WorkerReady& message) {
        self->state.take_worker(message, caf::actor_cast<WorkerActor>(self->current_sender()));
      },
      [self](const BatchDone& message) { self->state.take_batch(message); },
      [self](const WorkerLost& message) { self->state.lose_worker(message); },
      [self](const MeetSupervisor&) {
        self->state.set_supervisor(caf::actor_cast<SupervisorActor>(self->current_sender()));
      },
      [self](const SchedulerTick&) { self->state.tick(); },
  };
}

void SchedulerState::initialize(Self self, Environment environment, CacheTierActor tier) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  if (environment_->tracer) iteration_spans_ = SpanRate(environment_->tracer->max_iterations_per_second());
  tier_ = std::move(tier);
}

void SchedulerState::admit(const Admit& message, RequestActor request) {
  if (waiting_.size() >= environment_->options.max_waiting)
    return refuse(request, ApiErrorKind::kOverloaded,
                  "The server has " + std::to_string(waiting_.size()) +
                      " requests waiting, which is its limit; try again later.");
  self_->monitor(request);  // should it end without a word, its sequence goes too
  by_request_.emplace(request->id(), message.ticket->sequence);
  Sequence& sequence = sequences_[message.ticket->sequence];
  sequence.ticket = message.ticket;
  sequence.request = std::move(request);
  sequence.arrival = ++last_arrival_;
  sequence.arrived = now();
  sequence.tokens = message.ticket->prompt;
  if (message.ticket->sampling.has_penalties()) sequence.penalized.emplace(message.ticket->repeated_prompt);
  enqueue(sequence);
  if (epoch_ > 0 && !check(sequence)) return;
  advance();
  keep_ticking();
}

// False if it was refused, or had nothing to generate, and is gone.
bool SchedulerState::check(Sequence& sequence) {
  const AdmissionTicket& ticket = *sequence.ticket;
  const auto verdict = check_admission({.prompt = ticket.prompt,
                                        .max_tokens = ticket.max_tokens,
                                        .min_tokens = ticket.min_tokens,
                                        .stop_token_ids = ticket.end_tokens},
                                       limits_);
  if (const auto* refusal = std::get_if<Refusal>(&verdict)) {
    refuse(sequence.request,
           refusal->is_too_long ? ApiErrorKind::kContextTooLong : ApiErrorKind::kInvalidRequest,
           refusal->message, refusal->field);
    release(sequence);
    return false;
  }
  sequence.is_checked = true;
  self_->send(sequence.request, Admitted{});
  const auto max_total = std::get<std::uint32_t>(verdict);
  const auto num_prompt = static_cast<std::uint32_t>(ticket.prompt.size());
  sequence.is_only_scored = max_total == num_prompt && ticket.scores_prompt;
  if (max_total == num_prompt && !ticket.scores_prompt) {
    self_->send(sequence.request, NewToken{.token = -1, .end = SequenceEnd::kLength});
    release(sequence);
    return false;
  }
  sequence.progress = SequenceProgress(num_prompt, max_total + (sequence.is_only_scored ? 1 : 0),
                                       environment_->options.max_in_flight);
  if (ticket.scores_prompt) sequence.progress.score_known();
  return true;
}

void SchedulerState::refuse(const RequestActor& request, ApiErrorKind kind, std::string message,
                            std::optional<std::string> field) {
  self_->send(request,
              RequestFailed{{.kind = kind, .message = std::move(message), .field = std::move(field)}});
}

void SchedulerState::fail(Sequence& sequence, ApiErrorKind kind, std::string message) {
  refuse(sequence.request, kind, std::move(message));
  release(sequence);
}

void SchedulerState::stop(SequenceId id) {
  Sequence* sequence = find(id);
  if (!sequence) return;
  release(*sequence);
  advance();
}

void SchedulerState::take_down(caf::actor_id request) {
  const auto found = by_request_.find(request);
  if (found != by_request_.end()) stop(found->second);
}

void SchedulerState::pause(SequenceId id) {
  Sequence* sequence = find(id);
  if (!sequence) return;
  sequence->is_paused = true;
  settle_pause(*sequence);
  advance();
}

// A paused sequence gives up its slot and its pages: nobody else has to do
// without because its client does not read. Its full pages stay in the prefix
// cache as long as there is room, so coming back is cheap.
void SchedulerState::settle_pause(Sequence& sequence) {
  if (!sequence.is_paused || sequence.progress.num_in_flight() > 0) return;
  if (sequence.phase == Sequence::Phase::kPaused) return;
  if (sequence.phase == Sequence::Phase::kRunning) interrupt(sequence, StopReason::kPaused);
  waiting_.erase(sequence.arrival);
  sequence.run = ++last_run_;  // voids a reservation on its way
  sequence.phase = Sequence::Phase::kPaused;
}

void SchedulerState::resume(SequenceId id) {
  Sequence* sequence = find(id);
  if (!sequence || !sequence->is_paused) return;
  sequence->is_paused = false;
  if (sequence->phase == Sequence::Phase::kPaused) enqueue(*sequence);
  advance();
}

void SchedulerState::enqueue(Sequence& sequence) {
  sequence.phase = Sequence::Phase::kWaiting;
  sequence.queued = now();
  sequence.asked = {};
  sequence.has_fetched = false;
  sequence.fetched_tokens = 0;
  sequence.load_began = sequence.loaded = {};
  waiting_.emplace(sequence.arrival, &sequence);
}

void SchedulerState::start(Sequence& sequence, const PagesReserved& reserved) {
  waiting_.erase(sequence.arrival);
  running_.emplace(sequence.arrival, &sequence);
  sequence.phase = Sequence::Phase::kRunning;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.lease = reserved.lease;
  sequence.pages = reserved.pages;
  sequence.progress.start(reserved.known_tokens, reserved.holes);
  sequence.last_batch = last_batch_;
  std::uint32_t in_holes = 0;
  for (const TokenRange& hole : reserved.holes) in_holes += hole.size();
  const std::uint32_t found = reserved.known_tokens - in_holes;
  const std::uint32_t computed_before = std::max(sequence.num_given_up, reserved.known_tokens);
  environment_->metrics.recomputed_tokens.add(computed_before - found);
  KvSources sources = reserved.sources;
  sources.recomputed = computed_before - found;
  self_->send(sequence.request,
              SequenceStarted{.queued = sequence.queued,
                              .asked = sequence.asked,
                              .load_began = sequence.load_began,
                              .loaded = sequence.loaded,
                              .started = now(),
                              .num_known = static_cast<std::uint32_t>(sequence.tokens.size()),
                              .cached_tokens = found,
                              .sources = sources,
                              .epoch = epoch_});
  if (sequence.has_started) return;
  sequence.has_started = true;
  sequence.started = now();
  sequence.cached_tokens = found;
  environment_->metrics.queue_time.observe(
      std::chrono::duration<double>(sequence.started - sequence.arrived).count());
}

void SchedulerState::preempt(Sequence& sequence) {
  environment_->metrics.preemptions.add();
  sequence.has_progressed = false;
  interrupt(sequence, StopReason::kPreempted);
}

// What it has on the device is lost; it waits for its next turn, or for its
// client.
void SchedulerState::interrupt(Sequence& sequence, StopReason reason) {
  give_up_device(sequence);
  self_->send(sequence.request,
              SequenceStopped{.reason = reason, .time = now(), .is_paused = sequence.is_paused});
  if (sequence.is_paused) {
    sequence.phase = Sequence::Phase::kPaused;
  } else {
    enqueue(sequence);
  }
}

// Batches in flight keep the pages until they are done. The slot may be given
// away at once: a device works in order, so what is still in flight writes to
// it before the next owner does.
void SchedulerState::give_up_device(Sequence& sequence) {
  running_.erase(sequence.arrival);
  free_slots_.push_back(sequence.slot);
  if (sequence.progress.num_in_flight() == 0) is_admission_blocked_ = is_extension_blocked_ = false;
  sequence.lease.reset();
  sequence.pages.clear();
  sequence.num_given_up = sequence.progress.num_computed();
  sequence.progress.restart();
  sequence.is_extending = false;
  sequence.run = ++last_run_;
}

void SchedulerState::release(Sequence& sequence) {
  if (sequence.phase == Sequence::Phase::kRunning) give_up_device(sequence);
  waiting_.erase(sequence.arrival);
  by_request_.erase(sequence.request->id());
  suspects_.forget(sequence.id());
  const SequenceId id = sequence.id();  // erased by value: the key lives in the element
  sequences_.erase(id);
}

void SchedulerState::take_reserved(const PagesReserved& message) {
  if (message.epoch != epoch_) return;
  moves_.insert(moves_.end(), message.moves.begin(), message.moves.end());
  is_reserving_ = false;
  Sequence* sequence = find(message.request.sequence, message.request.run);
  if (sequence && sequence->phase == Sequence::Phase::kReserving) {
    if (message.is_fetching) {
      sequence->phase = Sequence::Phase::kFetching;
      sequence->has_fetched = true;
      sequence->load_began = now();
    } else if (message.lease) {
      start(*sequence, message);
    } else {
      sequence->phase = Sequence::Phase::kWaiting;
      is_admission_blocked_ = true;
    }
  }
  advance();
}

void SchedulerState::take_extended(const PagesExtended& message) {
  if (message.epoch != epoch_) return;
  moves_.insert(moves_.end(), message.moves.begin(), message.moves.end());
  const Sequence* needy = nullptr;  // the first to arrive
  for (const auto& extended : message.extensions) {
    Sequence* sequence = find(extended.request.sequence, extended.request.run);
    if (!sequence) continue;
    sequence->is_extending = false;
    sequence->pages.insert(sequence->pages.end(), extended.pages.begin(), extended.pages.end());
    if (!extended.pages.empty()) continue;
    is_extension_blocked_ = true;
    if (extended.request.required > 0 && !needy) needy = sequence;
  }
  if (needy) relieve_shortage(*needy);
  advance();
}

void SchedulerState::take_moves(const MovePages& message) {
  if (message.epoch != epoch_) return;
  moves_.insert(moves_.end(), message.moves.begin(), message.moves.end());
  if (!message.may_go_alone) return;
  may_moves_go_alone_ = true;
  advance();
}

void SchedulerState::take_fetched(const PagesFetched& message) {
  Sequence* sequence = find(message.sequence, message.run);
  if (!sequence || sequence->phase != Sequence::Phase::kFetching) return;
  sequence->phase = Sequence::Phase::kWaiting;
  sequence->fetched_tokens = message.num_tokens;
  sequence->loaded = now();
  advance();
}

// Sequences that wait for their clients keep nothing on the device.
void SchedulerState::flush(const FlushPages& message) {
  flushes_.push_back(message);
  flush_if_idle();
}

void SchedulerState::flush_if_idle() {
  if (!running_.empty() || !in_flight_.empty()) return;
  for (FlushPages& flush : std::exchange(flushes_, {})) self_->send(tier_, std::move(flush));
}

void SchedulerState::take_worker(const WorkerReady& message, WorkerActor worker) {
  if (message.epoch <= epoch_) return;
  lose_worker({.epoch = epoch_, .batch_id = 0});
  may_moves_go_alone_ = false;
  moves_.clear();  // what came after the old worker was lost was meant for it
  worker_ = std::move(worker);
  epoch_ = message.epoch;
  device_ = message.description;
  limits_ = {.context_length = device_.context_length,
             .page_capacity = device_.num_pages * device_.page_size,
             .vocabulary_size = device_.vocabulary_size};
  const EngineOptions& options = environment_->options;
  batch_limits_.max_tokens = std::min(options.max_batch_tokens, device_.max_batch_tokens);
  batch_limits_.max_sequences = std::min(options.max_batch_sequences, device_.num_slots);
  batch_limits_.prefill_chunk = std::min(options.prefill_chunk, batch_limits_.max_tokens);
  batch_limits_.max_penalized_tokens = device_.max_penalized_tokens;
  batch_limits_.separates_prefill = options.separates_prefill;
  free_slots_.clear();
  for (SlotId slot = batch_limits_.max_running(); slot > 0; --slot) free_slots_.push_back(slot - 1);
  is_admission_blocked_ = is_extension_blocked_ = false;
  self_->send(tier_, ResetPages{.epoch = epoch_,
                                .num_pages = device_.num_pages,
                                .num_host_pages = device_.num_host_pages,
                                .page_size = device_.page_size});
  std::vector<Sequence*> unchecked;
  for (const auto& [arrival, sequence] : waiting_)
    if (!sequence->is_checked) unchecked.push_back(sequence);
  for (Sequence* sequence : unchecked) check(*sequence);
  environment_->board->become_ready();
  advance();
}

// Every running sequence waits for the next worker with the tokens it has, but
// for one that is known to have done it.
void SchedulerState::lose_worker(const WorkerLost& message) {
  if (message.epoch != epoch_ || !has_worker()) return;
  worker_ = nullptr;
  lost_ = now();
  const auto in_flight = std::exchange(in_flight_, {});
  moves_.clear();
  is_reserving_ = false;
  for (const Flight& flight : in_flight) trace_iteration(flight, lost_, nullptr);
  Sequence* culprit = blame(message.epoch, in_flight, message.batch_id);
  for (const auto& [arrival, sequence] : ByArrival(running_)) interrupt(*sequence, StopReason::kWorkerLost);
  for (const auto& [arrival, sequence] : waiting_) {
    if (sequence->phase == Sequence::Phase::kFetching) sequence->has_fetched = false;
    sequence->phase = Sequence::Phase::kWaiting;
  }
  if (culprit)
    fail(*culprit, ApiErrorKind::kInternal,
         "The server's worker failed repeatedly on this request, so it was given up.");
  publish();
}

// batch_id: the one that did it; 0: any of those in flight may have. Null if it
// is not known yet who it was, or he has left.
Sequence* SchedulerState::blame(Epoch epoch, const std::deque<Flight>& in_flight, std::uint64_t batch_id) {
  std::vector<Suspects::Part> parts;
  for (const Flight& flight : in_flight) {
    if (batch_id != 0 && flight.batch_id != batch_id) continue;
    for (const FlightEntry& entry : flight.entries)
      parts.push_back({.sequence = entry.sequence,
                       .begin = entry.step.context_length,
                       .end = entry.step.context_length + entry.step.num_tokens,
                       .has_ended = find(entry.sequence) == nullptr});
  }
  const auto culprit = suspects_.take_death(epoch, parts);
  if (!culprit) return nullptr;
  log(LogLevel::kError, "a request was given up: workers die of it",
      {{"sequence", *culprit}, {"epoch", static_cast<std::uint64_t>(epoch)}});
  return find(*culprit);
}

Sequence* SchedulerState::find(SequenceId id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : &found->second;
}

Sequence* SchedulerState::find(SequenceId id, std::uint64_t run) {
  Sequence* sequence = find(id);
  return sequence && sequence->run == run ? sequence : nullptr;
}

}  // namespace troupe
