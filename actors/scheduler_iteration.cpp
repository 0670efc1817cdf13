// SPDX-License-Identifier: Apache-2.0
// The part of the scheduler that runs in every iteration: admission, pages
// ahead, the next batch, its results.
#include <algorithm>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/batch_builder.hpp"
#include "actors/scheduler.hpp"
#include "policy/preemption.hpp"

namespace troupe {
namespace {

// So many times the time after which tokens are said not to move, and the
// device is given up.
constexpr int kStallsUntilFailure = 6;
// Loading the weights of a large model takes minutes.
constexpr std::chrono::minutes kLongestRestart{10};

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Those whose KV may come from shared pages.
std::shared_ptr<const std::vector<std::int32_t>> reusable_tokens(const Sequence& sequence) {
  const std::uint32_t count = sequence.progress.num_reusable();
  if (sequence.num_generated() == 0 && count == sequence.tokens.size())
    return {sequence.ticket, &sequence.ticket->prompt};
  return std::make_shared<const std::vector<std::int32_t>>(sequence.tokens.begin(),
                                                           sequence.tokens.begin() + count);
}

std::size_t num_slices(const SequenceStep& step) { return step.scores ? step.num_tokens : 1; }

BatchCandidate candidate_of(const Sequence& sequence, std::uint32_t page_size) {
  BatchCandidate candidate{.progress = &sequence.progress,
                           .page_capacity = static_cast<std::uint32_t>(sequence.pages.size()) * page_size,
                           .last_batch = sequence.last_batch};
  if (sequence.penalized)
    candidate.num_penalized_tokens = static_cast<std::uint32_t>(sequence.penalized->tokens().size());
  return candidate;
}

}  // namespace

void SchedulerState::advance() {
  if (has_worker()) {
    request_admission();
    request_extensions();
    while (in_flight_.size() < environment_->options.max_in_flight && submit_batch()) {
    }
  }
  publish();
}

void SchedulerState::request_admission() {
  if (is_reserving_ || is_admission_blocked_ || free_slots_.empty()) return;
  Sequence* sequence = next_to_admit();
  if (!sequence) return;
  sequence->phase = Sequence::Phase::kReserving;
  if (sequence->asked == TimePoint{}) sequence->asked = now();
  sequence->run = ++last_run_;
  is_reserving_ = true;
  const PageDemand demand =
      admission_demand(sequence->progress, page_sizing(), static_cast<std::uint32_t>(running_.size()));
  ReservePages message;
  message.epoch = epoch_;
  message.request = {
      .sequence = sequence->id(), .run = sequence->run, .required = demand.required, .wanted = demand.wanted};
  message.tokens = reusable_tokens(*sequence);
  message.cache_salt = sequence->ticket->cache_salt;
  message.keep_free = demand.keep_free;
  message.may_fetch = !sequence->has_fetched;
  message.fetched_tokens = sequence->fetched_tokens;
  self_->send(tier_, std::move(message));
}

Sequence* SchedulerState::next_to_admit() {
  std::vector<Sequence*> candidates;
  std::vector<SequenceId> waiting, running;
  for (const auto& [arrival, sequence] : waiting_) {
    if (sequence->phase == Sequence::Phase::kFetching) continue;
    if (suspects_.is_empty()) return sequence;
    candidates.push_back(sequence);
    waiting.push_back(sequence->id());
  }
  for (const auto& [arrival, sequence] : running_)
    if (!sequence->is_paused) running.push_back(sequence->id());
  const auto chosen = suspects_.next_to_admit(waiting, running);
  return chosen ? candidates[*chosen] : nullptr;
}

void SchedulerState::request_extensions() {
  if (is_extension_blocked_) return;
  ExtendPages message;
  message.epoch = epoch_;
  for (const auto& [arrival, sequence] : running_) {
    if (sequence->is_extending || sequence->is_paused) continue;
    const auto num_held = static_cast<std::uint32_t>(sequence->pages.size());
    const PageDemand demand = extension_demand(sequence->progress, page_sizing(), num_held);
    if (demand.wanted == 0) continue;
    sequence->is_extending = true;
    message.extensions.push_back({.request = {.sequence = sequence->id(),
                                              .run = sequence->run,
                                              .required = demand.required,
                                              .wanted = demand.wanted},
                                  .lease = sequence->lease});
  }
  if (!message.extensions.empty()) self_->send(tier_, std::move(message));
}

void SchedulerState::relieve_shortage(const Sequence& needy) {
  std::vector<PreemptionCandidate> candidates;
  std::vector<Sequence*> running;
  for (const auto& [arrival, sequence] : running_) {
    candidates.push_back({.arrival = arrival, .has_progressed = sequence->has_progressed});
    running.push_back(sequence);
  }
  const auto victim = choose_victim(candidates, needy.arrival);
  if (victim) preempt(*running[*victim]);
}

bool SchedulerState::submit_batch() {
  const std::vector<Sequence*> participants = choose_participants();
  std::vector<BatchCandidate> candidates;
  candidates.reserve(participants.size());
  for (const Sequence* sequence : participants)
    candidates.push_back(candidate_of(*sequence, device_.page_size));
  const auto shares = form_batch(candidates, batch_limits_);
  const bool go_alone = may_moves_go_alone_ && !moves_.empty() && in_flight_.empty();
  if (shares.empty() && !go_alone) return false;

  auto batch = std::make_shared<Batch>();
  batch->id = ++last_batch_;
  batch->moves = std::exchange(moves_, {});
  may_moves_go_alone_ = false;
  batch->slices.reserve(shares.size());
  Flight flight;
  flight.batch_id = batch->id;
  flight.moves = batch->moves;
  flight.submitted = now();
  const bool may_be_traced = environment_->tracer && iteration_spans_.has_room(flight.submitted);
  flight.entries.reserve(shares.size());
  for (const BatchShare& share : shares) {
    Sequence& sequence = *participants[share.candidate];
    add_slice(*batch, sequence, share.step, device_.page_size);
    sequence.progress.submitted(share.step);
    sequence.last_batch = last_batch_;
    flight.entries.push_back(
        {.sequence = sequence.id(), .run = sequence.run, .step = share.step, .lease = sequence.lease});
    flight.num_decodes += share.step.sample && share.step.num_tokens == 1 ? 1 : 0;
    if (may_be_traced) flight.links.add(sequence.ticket->trace);
  }
  flight.num_tokens = batch->num_tokens();
  in_flight_.push_back(std::move(flight));
  self_->send(worker_, SubmitBatch{.epoch = epoch_, .batch = std::move(batch)});
  return true;
}

std::vector<Sequence*> SchedulerState::choose_participants() const {
  std::vector<Sequence*> participants;
  participants.reserve(running_.size());
  for (const auto& [arrival, sequence] : running_)
    if (!sequence->is_paused) participants.push_back(sequence);
  if (suspects_.is_empty()) return participants;
  std::vector<SequenceId> running, in_flight;
  for (const Sequence* sequence : participants) running.push_back(sequence->id());
  for (const Flight& flight : in_flight_)
    for (const FlightEntry& entry : flight.entries) in_flight.push_back(entry.sequence);
  std::vector<Sequence*> chosen;
  for (const std::size_t index : suspects_.choose_participants(running, in_flight))
    chosen.push_back(participants[index]);
  return chosen;
}

void SchedulerState::take_batch(const BatchDone& message) {
  if (message.epoch != epoch_ || in_flight_.empty() || in_flight_.front().batch_id != message.result.batch_id)
    return;  // of a worker that is gone
  {
    const Flight flight = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (flight.entries.empty()) {
      last_done_ = now();
    } else {
      observe_iteration(flight, message.result);
    }
    absorb(flight, message.result);
  }  // its leases are let go of here
  is_admission_blocked_ = is_extension_blocked_ = false;
  advance();
  flush_if_idle();
}

void SchedulerState::absorb(const Flight& flight, const BatchResult& result) {
  if (!result.failed_loads.empty())
    self_->send(tier_, VoidContents{.epoch = epoch_, .generations = result.failed_loads});
  CommitPages commits{.epoch = epoch_, .commits = {}};
  std::size_t next_slice = 0;
  for (const FlightEntry& entry : flight.entries) {
    const std::size_t first = next_slice;
    next_slice += num_slices(entry.step);
    Sequence* sequence = find(entry.sequence, entry.run);
    if (!sequence) continue;  // it ended, or lost its pages, meanwhile
    const SliceResults slices{.result = result, .first = first, .count = next_slice - first};
    if (slices.has_token(kVoidContext)) {
      interrupt(*sequence, StopReason::kContextLost);
      continue;
    }
    sequence->progress.completed(entry.step);
    suspects_.computed(entry.sequence, entry.step.context_length + entry.step.num_tokens);
    commit_pages(*sequence, entry.step, commits.commits);
    if (entry.step.scores) {
      absorb_scores(*sequence, slices);
    } else if (entry.step.sample) {
      absorb_token(*sequence, slices.token(0), slices.logprobs(0));
    }
    if (Sequence* still_there = find(entry.sequence, entry.run)) settle_pause(*still_there);
  }
  if (flight.num_decodes > 0 && suspects_.needs_proof()) forgive_deaths();
  if (!commits.commits.empty()) self_->send(tier_, std::move(commits));
  if (!flight.moves.empty()) self_->send(tier_, MovesDone{.epoch = epoch_, .moves = flight.moves});
}

// The device works.
void SchedulerState::forgive_deaths() {
  auto forgiven = suspects_.take_work();
  if (!forgiven.empty() && supervisor_)
    self_->send(supervisor_, DeathsForgiven{.epochs = std::move(forgiven)});
}

void SchedulerState::absorb_scores(Sequence& sequence, const SliceResults& slices) {
  for (std::size_t i = 0; i < slices.count; ++i) {
    const TokenLogprobs* logprobs = slices.logprobs(i);
    if (slices.token(i) < 0 || logprobs == nullptr)
      return fail(sequence, ApiErrorKind::kInternal, "The device could not score the prompt.");
    sequence.prompt_logprobs.push_back(*logprobs);
  }
}

void SchedulerState::absorb_token(Sequence& sequence, std::int32_t token, const TokenLogprobs* logprobs) {
  if (token < 0 || static_cast<std::uint32_t>(token) >= device_.vocabulary_size)
    return fail(sequence, ApiErrorKind::kInternal, "The device drew no valid token.");
  sequence.tokens.push_back(token);
  if (sequence.penalized) sequence.penalized->add(token);
  sequence.has_progressed = true;
  const AdmissionTicket& ticket = *sequence.ticket;
  NewToken message{.token = token, .cached_tokens = sequence.cached_tokens, .started = sequence.started};
  if (logprobs && ticket.sampling.wants_logprobs())
    message.logprobs = std::make_shared<const TokenLogprobs>(*logprobs);
  if (ticket.scores_prompt && sequence.num_generated() == 1)
    message.prompt_logprobs =
        std::make_shared<const std::vector<TokenLogprobs>>(std::move(sequence.prompt_logprobs));
  if (sequence.is_only_scored) {
    message.token = -1;
    message.end = SequenceEnd::kLength;
  } else if (sequence.num_generated() > ticket.min_tokens &&
             std::find(ticket.end_tokens.begin(), ticket.end_tokens.end(), token) !=
                 ticket.end_tokens.end()) {
    message.end = SequenceEnd::kEndToken;
  } else if (sequence.progress.is_at_limit()) {
    message.end = SequenceEnd::kLength;
  }
  self_->send(sequence.request, message);
  if (message.end != SequenceEnd::kNotYet) release(sequence);
}

// Pages become shareable once the KV of their last token is there.
void SchedulerState::commit_pages(const Sequence& sequence, const SequenceStep& step,
                                  std::vector<PageCommit>& commits) const {
  const std::uint32_t first = step.context_length / device_.page_size;
  const std::uint32_t end = (step.context_length + step.num_tokens) / device_.page_size;
  if (!environment_->options.cache.keeps_prefixes || first == end) return;
  const auto begin = sequence.tokens.begin();
  commits.push_back({.lease = sequence.lease,
                     .first_page = first,
                     .tokens = {begin + first * device_.page_size, begin + end * device_.page_size}});
}

void SchedulerState::observe_iteration(const Flight& flight, const BatchResult& result) {
  const TimePoint finished = now();
  const auto time = finished - std::max(flight.submitted, last_done_);
  trace_iteration(flight, finished, &result);
  last_done_ = finished;
  iteration_time_.observe(flight.num_tokens, time);
  environment_->board->mark_progress(finished);
  const Metrics& metrics = environment_->metrics;
  metrics.iterations.add();
  metrics.batch_tokens.observe(flight.num_tokens);
  metrics.decode_tokens.add(flight.num_decodes);
  metrics.prefill_tokens.add(flight.num_tokens - flight.num_decodes);
  metrics.batch_sequences.observe(static_cast<double>(flight.entries.size()));
  metrics.iteration_time.observe(seconds(time));
  metrics.network_time.observe(seconds(std::chrono::nanoseconds(result.network_nanoseconds)));
}

// result: null if its worker died.
void SchedulerState::trace_iteration(const Flight& flight, TimePoint ended, const BatchResult* result) {
  if (flight.links.empty()) return;
  iteration_spans_.take();
  record_iteration(*environment_->tracer, flight.links,
                   {.batch_id = flight.batch_id,
                    .epoch = epoch_,
                    .begun = std::max(flight.submitted, last_done_),
                    .ended = ended,
                    .network_nanoseconds = result ? result->network_nanoseconds : 0,
                    .num_tokens = flight.num_tokens,
                    .num_sequences = static_cast<std::uint32_t>(flight.entries.size()),
                    .num_decodes = flight.num_decodes,
                    .num_running = static_cast<std::uint32_t>(running_.size()),
                    .num_waiting = static_cast<std::uint32_t>(waiting_.size()),
                    .is_lost = result == nullptr});
}

void SchedulerState::publish() const {
  std::uint32_t most_tokens = 0;
  for (const Flight& flight : in_flight_) most_tokens = std::max(most_tokens, flight.num_tokens);
  StatusBoard& board = *environment_->board;
  board.predicted_nanoseconds = iteration_time_.predict(most_tokens).count();
  board.num_waiting = static_cast<std::uint32_t>(waiting_.size());
  board.num_running = static_cast<std::uint32_t>(running_.size());
  const Metrics& metrics = environment_->metrics;
  metrics.requests_waiting.set(static_cast<double>(waiting_.size()));
  metrics.requests_running.set(static_cast<double>(running_.size()));
  metrics.batches_in_flight.set(static_cast<double>(in_flight_.size()));
}

void SchedulerState::tick() {
  is_ticking_ = false;
  const TimePoint time = now();
  expire_waiting(time);
  check_stall(time);
  is_admission_blocked_ = is_extension_blocked_ = false;
  advance();
  keep_ticking();
}

// Deadlines run from arrival and end when a sequence has run once.
void SchedulerState::expire_waiting(TimePoint time) {
  const auto limit = environment_->options.max_queue_time;
  std::vector<Sequence*> expired;
  for (const auto& [arrival, sequence] : waiting_)
    if (!sequence->has_started && time - sequence->arrived > limit) expired.push_back(sequence);
  for (Sequence* sequence : expired)
    fail(*sequence, ApiErrorKind::kOverloaded,
         "The request waited longer than " + std::to_string(limit.count()) +
             " ms for its turn; try again later.");
}

void SchedulerState::check_stall(TimePoint time) {
  if (!supervisor_ || epoch_ == 0) return;
  if (!has_worker()) {
    if (time - lost_ > kLongestRestart)
      self_->send(supervisor_, WorkerStalled{.epoch = epoch_, .reason = "no new device comes up"});
    return;
  }
  if (in_flight_.empty()) return;
  const Flight& oldest = in_flight_.front();
  const auto limit = kStallsUntilFailure * stall_threshold(iteration_time_.predict(oldest.num_tokens));
  if (time - std::max(oldest.submitted, last_done_) > limit)
    self_->send(supervisor_,
                WorkerStalled{.epoch = epoch_, .reason = "the device does not finish its batch"});
}

// Only while there is something to watch over.
void SchedulerState::keep_ticking() {
  if (is_ticking_ || sequences_.empty()) return;
  is_ticking_ = true;
  self_->delayed_send(self_, kQueueCheckInterval, SchedulerTick{});
}

PageSizing SchedulerState::page_sizing() const {
  return {.page_size = device_.page_size,
          .look_ahead_pages = environment_->options.look_ahead_pages,
          .kept_free = static_cast<std::uint32_t>(environment_->options.cache.keep_free * device_.num_pages)};
}

SchedulerState::TimePoint SchedulerState::now() const { return self_->clock().now(); }

}  // namespace troupe
