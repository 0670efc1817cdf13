// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulated_worker.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/preemption.hpp"

namespace troupe::loadgen {

SimulatedWorker::SimulatedWorker(const CostProfile& profile, std::span<const std::int32_t> blank_prompt,
                                 bool says_each_token)
    : profile_(profile),
      blank_prompt_(blank_prompt),
      says_each_token_(says_each_token),
      pages_(profile.serving),
      num_free_slots_(profile.serving.batch.max_running()) {}

void SimulatedWorker::admit(Time now, const WorkerRequest& request) {
  now_ = now;
  if (waiting_.size() >= profile_.serving.max_waiting) {
    events_.push_back({.kind = WorkerEvent::Kind::kOverloaded, .request = request.id});
    return;
  }
  const Index index = take_sequence();
  Sequence& sequence = sequences_[index];
  sequence.request = request;
  sequence.arrival = ++last_arrival_;
  sequence.arrived = now;
  if (!check(index)) return;
  waiting_.emplace(sequence.arrival, index);
  load_.num_waiting += 1;
  load_.outstanding_tokens += request.prompt_tokens + request.max_tokens;
  settle();
  if (!next_check_) next_check_ = now + kQueueCheckInterval;
}

// False if it can never be served, or has nothing to generate, and is gone.
bool SimulatedWorker::check(Index index) {
  Sequence& sequence = sequences_[index];
  const WorkerRequest& request = sequence.request;
  // Of prompts that are too long it does not matter by how much.
  const auto length = std::min<std::size_t>(request.prompt_tokens, blank_prompt_.size());
  const auto verdict = check_admission(
      {.prompt = blank_prompt_.first(length), .max_tokens = request.max_tokens}, profile_.serving.limits);
  const auto* max_total = std::get_if<std::uint32_t>(&verdict);
  if (max_total && *max_total > request.prompt_tokens) {
    sequence.progress = SequenceProgress(request.prompt_tokens, *max_total, profile_.serving.max_in_flight);
    return true;
  }
  say(max_total ? WorkerEvent::Kind::kFinished : WorkerEvent::Kind::kRejected, sequence);
  free_sequences_.push_back(index);
  return false;
}

std::optional<SimulatedWorker::Time> SimulatedWorker::next_done() const {
  if (in_flight_.empty()) return std::nullopt;
  return in_flight_.front().done;
}

void SimulatedWorker::complete_batch() {
  Flight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  now_ = flight.done;
  absorb(flight);
  flight.entries.clear();
  spare_entries_.push_back(std::move(flight.entries));
  is_admission_blocked_ = is_extension_blocked_ = false;
  settle();
}

void SimulatedWorker::check_queue() {
  now_ = *next_check_;
  next_check_.reset();
  expire_waiting();
  is_admission_blocked_ = is_extension_blocked_ = false;
  settle();
  if (load_.num_requests() > 0) next_check_ = now_ + kQueueCheckInterval;
}

// Goes on until the cache tier has nothing left to say. It answers all that it
// was asked before the scheduler hears the first of the answers, as an actor
// does that handles its whole mailbox when its turn comes.
void SimulatedWorker::settle() {
  advance();
  while (!questions_.empty()) {
    const auto answers = std::exchange(questions_, {});
    std::vector<Grants> grants;
    for (const TierMessage& message : answers) grants.push_back(ask_tier(message));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].is_reservation) {
        take_reserved(answers[i].questions.front(), grants[i]);
      } else {
        take_extended(answers[i].questions, grants[i]);
      }
      advance();
    }
  }
}

void SimulatedWorker::advance() {
  request_admission();
  request_extensions();
  while (in_flight_.size() < profile_.serving.max_in_flight && submit_batch()) {
  }
}

void SimulatedWorker::request_admission() {
  if (is_reserving_ || is_admission_blocked_ || num_free_slots_ == 0 || waiting_.empty()) return;
  const Index index = waiting_.begin()->second;
  Sequence& sequence = sequences_[index];
  sequence.run = ++last_run_;
  is_reserving_ = true;
  const auto demand = admission_demand(sequence.progress, profile_.serving.pages,
                                       static_cast<std::uint32_t>(running_.size()));
  questions_.push_back(
      {.is_reservation = true,
       .questions = {
           {.sequence = index, .run = sequence.run, .reservation = ++last_reservation_, .demand = demand}}});
}

void SimulatedWorker::request_extensions() {
  if (is_extension_blocked_) return;
  TierMessage message;
  for (const Index index : running_) {
    Sequence& sequence = sequences_[index];
    if (sequence.is_extending) continue;
    const auto demand = extension_demand(sequence.progress, profile_.serving.pages, sequence.num_pages);
    if (demand.wanted == 0) continue;
    sequence.is_extending = true;
    message.questions.push_back(
        {.sequence = index, .run = sequence.run, .reservation = sequence.reservation, .demand = demand});
  }
  if (!message.questions.empty()) questions_.push_back(std::move(message));
}

bool SimulatedWorker::submit_batch() {
  candidates_.clear();
  for (const Index index : running_)
    candidates_.push_back({.progress = &sequences_[index].progress,
                           .page_capacity = sequences_[index].num_pages * profile_.serving.pages.page_size});
  const auto shares = form_batch(candidates_, profile_.serving.batch);
  if (shares.empty()) return false;

  Flight flight;
  if (!spare_entries_.empty()) {
    flight.entries = std::move(spare_entries_.back());
    spare_entries_.pop_back();
  }
  flight.entries.reserve(shares.size());
  IterationShape shape;
  for (const BatchShare& share : shares) {
    const Index index = running_[share.candidate];
    Sequence& sequence = sequences_[index];
    shape.add(share.step);
    sequence.progress.submitted(share.step);
    flight.entries.push_back({.sequence = index, .run = sequence.run, .step = share.step});
  }
  const Time handed_in = now_ + Time(static_cast<Time::rep>(profile_.overheads.turnaround));
  device_free_ = std::max(device_free_, handed_in) + profile_.iteration(shape) +
                 profile_.overheads.of_iteration(shape.num_sequences);
  flight.done = device_free_;
  in_flight_.push_back(std::move(flight));
  totals_.num_batches += 1;
  totals_.batch_tokens += shape.num_tokens;
  return true;
}

// Between question and answer nothing happens to the sequences.
SimulatedWorker::Grants SimulatedWorker::ask_tier(const TierMessage& message) {
  Grants grants;
  for (const PageQuestion& question : message.questions) {
    const Sequence& sequence = sequences_[question.sequence];
    if (!message.is_reservation) {
      const auto granted = pages_.extend(question.reservation, question.demand, now_);
      grants.push_back({.num_pages = granted.value_or(0)});
      continue;
    }
    std::span<const std::int32_t> known;
    if (pages_.shares_prefixes() && sequence.request.tokens)
      known = std::span(*sequence.request.tokens).first(sequence.progress.num_known());
    const auto granted = pages_.reserve(question.reservation, known, question.demand, now_);
    grants.push_back(granted.value_or(SimulatedPages::Grant{}));
  }
  return grants;
}

void SimulatedWorker::take_reserved(const PageQuestion& question, const Grants& grants) {
  is_reserving_ = false;
  if (grants.front().num_pages > 0) {
    start(question, grants.front());
  } else {
    is_admission_blocked_ = true;
  }
}

void SimulatedWorker::take_extended(const std::vector<PageQuestion>& questions, const Grants& grants) {
  const Sequence* needy = nullptr;  // the first to arrive
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const PageQuestion& question = questions[i];
    Sequence* sequence = find(question.sequence, question.run);
    if (!sequence) continue;  // preempted by an answer before this one
    sequence->is_extending = false;
    sequence->num_pages += grants[i].num_pages;
    if (grants[i].num_pages > 0) continue;
    is_extension_blocked_ = true;
    if (question.demand.required > 0 && !needy) needy = sequence;
  }
  if (needy) relieve_shortage(*needy);
}

void SimulatedWorker::relieve_shortage(const Sequence& needy) {
  std::vector<PreemptionCandidate> candidates;
  for (const Index index : running_)
    candidates.push_back(
        {.arrival = sequences_[index].arrival, .has_progressed = sequences_[index].has_progressed});
  const auto victim = choose_victim(candidates, needy.arrival);
  if (victim) preempt(running_[*victim]);
}

void SimulatedWorker::start(const PageQuestion& question, const SimulatedPages::Grant& grant) {
  const Index index = question.sequence;
  Sequence& sequence = sequences_[index];
  waiting_.erase(sequence.arrival);
  const auto place = std::upper_bound(
      running_.begin(), running_.end(), sequence.arrival,
      [this](std::uint64_t arrival, Index other) { return arrival < sequences_[other].arrival; });
  running_.insert(place, index);
  num_free_slots_ -= 1;
  load_.num_waiting -= 1;
  load_.num_running += 1;
  sequence.reservation = question.reservation;
  sequence.num_pages = grant.num_pages;
  sequence.progress.start(grant.known_tokens, grant.holes);
  if (sequence.has_started) return;
  sequence.has_started = true;
  sequence.cached_tokens = grant.cached_tokens();
  sequence.queue_time = now_ - sequence.arrived;
}

void SimulatedWorker::preempt(Index index) {
  totals_.num_preemptions += 1;
  Sequence& sequence = sequences_[index];
  sequence.has_progressed = false;
  give_up_device(index);
  waiting_.emplace(sequence.arrival, index);
  load_.num_waiting += 1;
}

// Batches in flight keep the pages until they are done.
void SimulatedWorker::give_up_device(Index index) {
  Sequence& sequence = sequences_[index];
  running_.erase(std::find(running_.begin(), running_.end(), index));
  num_free_slots_ += 1;
  load_.num_running -= 1;
  if (sequence.progress.num_in_flight() == 0) {
    is_admission_blocked_ = is_extension_blocked_ = false;
    return_pages(sequence.reservation);
  } else {
    departed_.push_back({.run = sequence.run,
                         .reservation = sequence.reservation,
                         .num_in_flight = sequence.progress.num_in_flight()});
  }
  sequence.num_pages = 0;
  sequence.progress.restart();
  sequence.is_extending = false;
  sequence.run = ++last_run_;
}

void SimulatedWorker::release(Index index) {
  Sequence& sequence = sequences_[index];
  give_up_device(index);
  load_.outstanding_tokens -= sequence.request.prompt_tokens + sequence.request.max_tokens;
  sequence.request.tokens.reset();
  free_sequences_.push_back(index);
}

void SimulatedWorker::absorb(const Flight& flight) {
  is_absorbing_ = true;
  bool has_committed = false;
  for (const FlightEntry& entry : flight.entries) {
    Sequence* sequence = find(entry.sequence, entry.run);
    if (!sequence) {  // it ended, or lost its pages, meanwhile
      has_just_committed_ = false;
      drop_departed(entry.run);
      continue;
    }
    sequence->progress.completed(entry.step);
    has_just_committed_ = commit_pages(*sequence, entry.step);
    has_committed = has_committed || has_just_committed_;
    if (entry.step.sample) absorb_token(entry.sequence);
  }
  is_absorbing_ = false;
  for (const LeaseId reservation : returned_) pages_.release(reservation, now_);
  if (has_committed) pages_.copy_ahead(now_);
  for (const LeaseId reservation : returned_last_) pages_.release(reservation, now_);
  returned_.clear();
  returned_last_.clear();
}

void SimulatedWorker::return_pages(LeaseId reservation) {
  if (!is_absorbing_) return pages_.release(reservation, now_);
  (has_just_committed_ ? returned_last_ : returned_).push_back(reservation);
}

void SimulatedWorker::absorb_token(Index index) {
  Sequence& sequence = sequences_[index];
  sequence.has_progressed = true;
  totals_.output_tokens += 1;
  if (sequence.num_generated() == 1) {
    say(WorkerEvent::Kind::kFirstToken, sequence);
  } else if (says_each_token_) {
    say(WorkerEvent::Kind::kToken, sequence);
  }
  if (sequence.num_generated() < sequence.request.output_tokens) return;
  say(WorkerEvent::Kind::kFinished, sequence);
  release(index);
}

bool SimulatedWorker::commit_pages(const Sequence& sequence, const SequenceStep& step) {
  if (!pages_.shares_prefixes() || !sequence.request.tokens) return false;
  const std::uint32_t page_size = profile_.serving.pages.page_size;
  const std::uint32_t first = step.context_length / page_size;
  const std::uint32_t end = (step.context_length + step.num_tokens) / page_size;
  if (first == end) return false;
  pages_.commit(sequence.reservation, first,
                std::span(*sequence.request.tokens).subspan(first * page_size, (end - first) * page_size));
  return true;
}

void SimulatedWorker::drop_departed(std::uint64_t run) {
  const auto found = std::find_if(departed_.begin(), departed_.end(),
                                  [run](const Departed& departed) { return departed.run == run; });
  assert(found != departed_.end());
  if (--found->num_in_flight > 0) return;
  return_pages(found->reservation);
  departed_.erase(found);
}

// Deadlines run from arrival and end when a sequence has run once.
void SimulatedWorker::expire_waiting() {
  std::vector<Index> expired;
  for (const auto& [arrival, index] : waiting_)
    if (!sequences_[index].has_started && now_ - sequences_[index].arrived > profile_.serving.max_queue_time)
      expired.push_back(index);
  for (const Index index : expired) refuse(index, WorkerEvent::Kind::kOverloaded);
}

void SimulatedWorker::refuse(Index index, WorkerEvent::Kind kind) {
  Sequence& sequence = sequences_[index];
  say(kind, sequence);
  waiting_.erase(sequence.arrival);
  load_.num_waiting -= 1;
  load_.outstanding_tokens -= sequence.request.prompt_tokens + sequence.request.max_tokens;
  sequence.run = ++last_run_;
  sequence.request.tokens.reset();
  free_sequences_.push_back(index);
}

SimulatedWorker::Sequence* SimulatedWorker::find(Index index, std::uint64_t run) {
  Sequence& sequence = sequences_[index];
  return sequence.run == run ? &sequence : nullptr;
}

SimulatedWorker::Index SimulatedWorker::take_sequence() {
  if (free_sequences_.empty()) {
    sequences_.emplace_back();
    return static_cast<Index>(sequences_.size() - 1);
  }
  const Index index = free_sequences_.back();
  free_sequences_.pop_back();
  sequences_[index] = {};
  return index;
}

void SimulatedWorker::say(WorkerEvent::Kind kind, const Sequence& sequence) {
  events_.push_back({.kind = kind,
                     .request = sequence.request.id,
                     .cached_tokens = sequence.cached_tokens,
                     .queue_time = sequence.queue_time});
}

}  // namespace troupe::loadgen
