// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder_core.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/queue_full.hpp"

namespace troupe {
namespace {

constexpr std::size_t kPlannedBatches = 4;  // a plan's texts are as many as such full batches have
constexpr std::int32_t kPaddingToken = 0;   // any that the vocabulary has: nothing looks at it

}  // namespace

void EncoderCore::on(const Event& event, TimePoint now, Commands& out) {
  now_ = now;
  out_ = &out;
  std::visit([this](const auto& happened) { take(happened); }, event);
  flush_if_idle();
  out_ = nullptr;
}

bool EncoderCore::submit_one(WorkerId worker, std::chrono::nanoseconds longest, TimePoint now,
                             Commands& out) {
  if (!workers_.is_up(worker)) return false;
  now_ = now;
  out_ = &out;
  const bool has_submitted = submit(worker, longest);
  out_ = nullptr;
  return has_submitted;
}

void EncoderCore::take(const Admit& event) {
  const AdmissionTicket& ticket = *event.ticket;
  // An input that can't be encoded takes no other one's place.
  if (auto refused = refusal_of(ticket)) return emit(ticket.sequence, std::move(*refused));
  if (!find_place(ticket))
    return emit(ticket.sequence, SequenceFailed{.failure = SequenceFailure::kQueueFull,
                                                .message = queue_full_message(num_new_)});
  const Arrival arrival = ++last_arrival_;
  const auto flow = flows_.join(ticket.flow);
  passes_.emplace(arrival, Pass{.ticket = event.ticket, .flow = flow, .arrived = now_, .queued = now_});
  arrival_of_.emplace(ticket.sequence, arrival);
  flows_.wait(flow, arrival);
  num_new_ += ticket.has_begun ? 0 : 1;
  if (limits_) admit(arrival);
  advance();
}

// False: the queue is full, and stays as it is. What has begun is never put out.
bool EncoderCore::find_place(const AdmissionTicket& ticket) {
  if (ticket.has_begun || num_new_ < options_.serving.max_waiting) return true;
  const auto displaced =
      flows_.choose_displaced(ticket.flow, [this](Arrival arrival) { return passes_.at(arrival).is_new(); });
  if (!displaced) return false;
  fail(*displaced, SequenceFailure::kDisplaced,
       "The server's queue is full, and others have fewer requests in it; try again later.");
  return true;
}

// nullopt: it can be served, or no device has said yet what can be.
std::optional<SequenceFailed> EncoderCore::refusal_of(const AdmissionTicket& ticket) const {
  if (!limits_) return std::nullopt;
  auto refusal = check_input(ticket.prompt, *limits_);
  if (!refusal) return std::nullopt;
  return SequenceFailed{
      .failure = refusal->is_too_long ? SequenceFailure::kContextTooLong : SequenceFailure::kInvalidRequest,
      .message = std::move(refusal->message),
      .field = std::move(refusal->field)};
}

void EncoderCore::admit(Arrival arrival) {
  Pass& pass = passes_.at(arrival);
  if (auto refused = refusal_of(*pass.ticket))
    return fail(arrival, refused->failure, std::move(refused->message), std::move(refused->field));
  pass.is_admitted = true;
  emit(pass.ticket->sequence, Admitted{});
}

void EncoderCore::take(const StopSequence& event) {
  const auto found = arrival_of_.find(event.sequence);
  if (found == arrival_of_.end()) return;
  release(found->second);
  advance();
}

void EncoderCore::take(const WorkerReady& event) {
  if (!workers_.expect(event)) return;
  Worker& worker = workers_[event.worker];
  take(WorkerLost{.worker = event.worker, .epoch = worker.health.epoch});
  worker.health.come_up(event);
  is_given_up_ = false;
  const DeviceDescription& device = event.description;
  limits_ = ServingLimits{.context_length = device.context_length,
                          .page_capacity = device.context_length,
                          .vocabulary_size = device.vocabulary_size};
  worker.max_tokens =
      std::max(std::min(options_.serving.max_batch_tokens, device.max_batch_tokens), device.context_length);
  worker.max_rows = std::min(options_.serving.max_batch_sequences, device.num_slots);
  worker.vector_size = device.cells.empty() ? 0 : device.cells.front().vector_size;
  std::vector<Arrival> unchecked;
  for (const auto& [arrival, pass] : passes_)
    if (!pass.is_admitted) unchecked.push_back(arrival);
  for (const Arrival arrival : unchecked) admit(arrival);
  advance();
}

void EncoderCore::advance() {
  if (options_.shares_workers) return;
  for (WorkerId id = 0; id < workers_.size(); ++id)
    if (workers_[id].health.is_up)
      while (workers_[id].in_flight.size() < options_.serving.max_in_flight &&
             submit(id, std::chrono::nanoseconds(0))) {
      }
}

bool EncoderCore::submit(WorkerId id, std::chrono::nanoseconds longest) {
  const Worker& worker = workers_[id];
  if (!is_due(worker)) return false;
  const EncoderBatching batching = options_.serving.encoder_batching;
  Flight flight{.batch_id = last_batch_ + 1,
                .submitted = now_,
                .size = EncoderBatch(batching, limits_of(worker, longest)),
                .passes = {}};
  const bool is_planned = batching == EncoderBatching::kDp && suspects_.is_empty();
  is_planned ? fill_by_plan(id, flight) : fill_in_turn(id, flight);
  if (flight.passes.empty()) return false;
  last_batch_ += 1;
  out_->push_back(command_of(flight, id));
  workers_[id].in_flight.push_back(std::move(flight));
  return true;
}

// A plan that is begun is run to its end. Looks at no more texts than a batch may have. A timer is
// set for the time at which a batch is due, unless one fires before.
bool EncoderCore::is_due(const Worker& worker) {
  const TriggerRule rule = options_.serving.encoder_trigger_rule();
  if (rule.trigger == BatchTrigger::kHungry || !suspects_.is_empty() || !plan_.empty()) return true;
  const EncoderBatchLimits limits = limits_of(worker, {});
  WaitingTexts waiting{.oldest = now_};
  for (auto pass = passes_.begin(); pass != passes_.end() && waiting.num_texts < limits.max_texts; ++pass) {
    if (!pass->second.is_admitted || in_batches_.contains(pass->first)) continue;
    waiting.oldest = std::min(waiting.oldest, pass->second.queued);
    waiting.num_texts += 1;
    waiting.num_tokens += pass->second.num_tokens();
  }
  if (waiting.num_texts == 0) return false;
  waiting.run_time = worker.pass_time.of(waiting.num_tokens);
  const TimePoint time = start_time(rule, waiting, limits);
  if (time <= now_) return true;
  if (timer_ && *timer_ <= time) return false;
  timer_ = time;
  out_->push_back(SetTimer{.time = time});
  return false;
}

void EncoderCore::take(const TimerFired&) {
  if (timer_ && *timer_ <= now_) timer_.reset();
  advance();
}

EncoderBatchLimits EncoderCore::limits_of(const Worker& worker, std::chrono::nanoseconds longest) const {
  EncoderBatchLimits limits{.max_texts = worker.max_rows, .max_tokens = worker.max_tokens};
  if (longest.count() > 0)
    limits.max_tokens = std::min(limits.max_tokens, worker.pass_time.tokens_within(longest));
  return limits;
}

void EncoderCore::fill_in_turn(WorkerId id, Flight& flight) {
  while (const auto arrival = next_pass(workers_[id])) {
    if (!flight.size.has_room(passes_.at(*arrival).num_tokens())) return;
    join(flight, *arrival, id);
    if (!suspects_.is_empty()) return;  // it is tried alone
  }
}

// As much of the plan's next batch as there is room for now.
void EncoderCore::fill_by_plan(WorkerId id, Flight& flight) {
  while (flight.passes.empty()) {
    if (plan_.empty() && !make_plan(limits_of(workers_[id], {}))) return;
    std::vector<Arrival> left;
    for (const Arrival arrival : plan_.front()) {
      if (!is_waiting(arrival)) continue;
      if (flight.size.has_room(passes_.at(arrival).num_tokens())) {
        join(flight, arrival, id);
      } else {
        left.push_back(arrival);
      }
    }
    if (left.empty()) {
      plan_.pop_front();
    } else {
      plan_.front() = std::move(left);
    }
  }
}

// Takes a few batches' worth of texts in turn: others that come wait for no more than that. The
// batch with the oldest text comes first. False: none waits.
bool EncoderCore::make_plan(const EncoderBatchLimits& limits) {
  std::vector<Arrival> texts;
  for (const Arrival arrival : flows_.in_turn()) {
    if (texts.size() >= kPlannedBatches * limits.max_texts) break;
    if (passes_.at(arrival).is_admitted) texts.push_back(arrival);
  }
  const auto length_of = [this](Arrival arrival) { return passes_.at(arrival).num_tokens(); };
  std::stable_sort(texts.begin(), texts.end(),
                   [&](Arrival a, Arrival b) { return length_of(a) < length_of(b); });
  std::vector<std::uint32_t> lengths;
  for (const Arrival text : texts) lengths.push_back(length_of(text));
  auto first = texts.begin();
  for (const std::uint32_t size : plan_encoder_batches(lengths, limits, std::ref(costs_))) {
    const auto end = first + static_cast<std::ptrdiff_t>(size);
    plan_.emplace_back(first, end);
    first = end;
  }
  const auto oldest_of = [](const std::vector<Arrival>& batch) {
    return *std::min_element(batch.begin(), batch.end());
  };
  std::sort(plan_.begin(), plan_.end(),
            [&](const auto& a, const auto& b) { return oldest_of(a) < oldest_of(b); });
  return !plan_.empty();
}

// The next to join a batch. A suspect (policy/health/suspects.hpp) goes alone.
std::optional<EncoderCore::Arrival> EncoderCore::next_pass(const Worker& worker) const {
  const auto is_admitted = [this](Arrival arrival) { return passes_.at(arrival).is_admitted; };
  if (suspects_.is_empty()) return flows_.next(is_admitted);
  if (!worker.in_flight.empty()) return std::nullopt;
  std::vector<Arrival> waiting;
  std::vector<SequenceId> ids;
  for (const Arrival arrival : flows_.in_turn()) {
    if (!is_admitted(arrival)) continue;
    waiting.push_back(arrival);
    ids.push_back(passes_.at(arrival).ticket->sequence);
  }
  const auto chosen = suspects_.next_to_admit(ids, {});
  return chosen ? std::optional(waiting[*chosen]) : std::nullopt;
}

void EncoderCore::join(Flight& flight, Arrival arrival, WorkerId worker) {
  flight.size.add(passes_.at(arrival).num_tokens());
  flight.passes.push_back(arrival);
  start(arrival, worker);
}

void EncoderCore::start(Arrival arrival, WorkerId worker) {
  Pass& pass = passes_.at(arrival);
  flows_.start(pass.flow, arrival);
  if (!pass.has_started) flows_.charge(pass.flow, FairQueue::kPromptTokenCost * pass.num_tokens());
  num_new_ -= pass.is_new() ? 1 : 0;
  pass.has_started = true;
  in_batches_.emplace(arrival, worker);
  emit(pass.ticket->sequence, SequenceStarted{.queued = pass.queued,
                                              .asked = pass.queued,
                                              .started = now_,
                                              .num_known = pass.num_tokens(),
                                              .worker = worker,
                                              .epoch = workers_[worker].health.epoch});
}

SubmitBatch EncoderCore::command_of(const Flight& flight, WorkerId id) const {
  SubmitBatch command{.worker = id, .epoch = workers_[id].health.epoch, .batch_id = flight.batch_id};
  if (options_.makes_batches) command.batch = make_batch(flight);
  for (const Arrival arrival : flight.passes) {
    const Pass& pass = passes_.at(arrival);
    command.shape.add({.num_tokens = num_slice_tokens(flight, pass), .context_length = 0});
    if (!options_.makes_batches) command.steps.push_back({.sequence = pass.ticket->sequence});
  }
  return command;
}

std::uint32_t EncoderCore::num_slice_tokens(const Flight& flight, const Pass& pass) const {
  return flight.size.is_padded() ? flight.size.longest() : pass.num_tokens();
}

std::shared_ptr<const Batch> EncoderCore::make_batch(const Flight& flight) const {
  auto batch = std::make_shared<Batch>();
  batch->id = flight.batch_id;
  for (const Arrival arrival : flight.passes) {
    const Pass& pass = passes_.at(arrival);
    SequenceSlice slice;
    slice.sequence = pass.ticket->sequence;
    slice.num_tokens = num_slice_tokens(flight, pass);
    slice.num_padding = slice.num_tokens - pass.num_tokens();
    slice.second_text = pass.ticket->second_text;
    batch->token_ids.insert(batch->token_ids.end(), pass.ticket->prompt.begin(), pass.ticket->prompt.end());
    batch->token_ids.insert(batch->token_ids.end(), slice.num_padding, kPaddingToken);
    batch->slices.push_back(std::move(slice));
  }
  return batch;
}

void EncoderCore::take(const BatchDone& event) {
  const auto flight = workers_.take_done(event);
  if (!flight) return;
  Worker& worker = workers_[event.worker];
  report(event.worker, worker, *flight, &event.result);
  learn(worker, *flight, worker.health.finish(flight->owed(), now_));
  worker.health.last_done = now_;
  finish(worker, *flight, event.result);
  if (suspects_.needs_proof())
    if (auto forgiven = suspects_.take_work(); !forgiven.empty())
      out_->push_back(DeathsForgiven{.epochs = std::move(forgiven)});
  advance();
}

void EncoderCore::finish(const Worker& worker, const Flight& flight, const BatchResult& result) {
  const std::size_t size = worker.vector_size;
  for (std::size_t i = 0; i < flight.passes.size(); ++i) {
    const auto found = passes_.find(flight.passes[i]);
    if (found == passes_.end()) continue;  // stopped meanwhile
    if (options_.makes_batches && (size == 0 || result.vectors.size() < (i + 1) * size)) {
      fail(found->first, SequenceFailure::kDeviceFault, "The device gave no vector for the input.");
      continue;
    }
    Encoded encoded{.sequence = found->second.ticket->sequence, .vector = {}};
    if (options_.makes_batches) {
      const auto first = result.vectors.begin() + static_cast<std::ptrdiff_t>(i * size);
      encoded.vector.assign(first, first + static_cast<std::ptrdiff_t>(size));
    }
    emit(found->second.ticket->sequence, std::move(encoded));
    release(found->first);
  }
}

void EncoderCore::learn(Worker& worker, const Flight& flight, std::chrono::nanoseconds time) {
  if (options_.serving.encoder_batching == EncoderBatching::kDp)
    costs_.learn(flight.size.longest(), flight.size.num_texts(), static_cast<double>(time.count()));
  worker.pass_time.observe(flight.size.num_computed(), time);
}

// Inputs in flight are queued again, except one that is known to have killed the worker.
void EncoderCore::take(const WorkerLost& event) {
  const auto in_flight = workers_.take_lost(event, now_);
  if (!in_flight) return;
  for (const Flight& flight : *in_flight) {
    report(event.worker, workers_[event.worker], flight, nullptr);
    for (const Arrival arrival : flight.passes) {
      const auto found = passes_.find(arrival);
      if (found == passes_.end()) continue;
      Pass& pass = found->second;
      in_batches_.erase(arrival);
      flows_.stop(pass.flow);
      flows_.wait(pass.flow, arrival);
      pass.queued = now_;
      emit(pass.ticket->sequence, SequenceStopped{.reason = StopReason::kWorkerLost, .time = now_});
    }
  }
  blame(event, *in_flight);
  advance();
}

void EncoderCore::blame(const WorkerLost& event, const std::deque<Flight>& in_flight) {
  std::vector<Suspects::Part> parts;
  for (const Flight& flight : in_flight) {
    if (event.batch_id != 0 && flight.batch_id != event.batch_id) continue;
    for (const Arrival arrival : flight.passes)
      if (const auto found = passes_.find(arrival); found != passes_.end())
        parts.push_back(
            {.sequence = found->second.ticket->sequence, .begin = 0, .end = found->second.num_tokens()});
  }
  const auto culprit = suspects_.take_death(event.epoch, parts, event.may_be_another);
  if (culprit)
    fail(arrival_of_.at(*culprit), SequenceFailure::kKillsWorkers,
         "The server's worker failed repeatedly on this request, so it was given up.");
}

// result: null if its worker died.
void EncoderCore::report(WorkerId id, const Worker& worker, const Flight& flight, const BatchResult* result) {
  out_->push_back(IterationReport{.worker = id,
                                  .epoch = worker.health.epoch,
                                  .batch_id = flight.batch_id,
                                  .begun = std::max(flight.submitted, worker.health.last_done),
                                  .ended = now_,
                                  .network_nanoseconds = result ? result->network_nanoseconds : 0,
                                  .num_tokens = flight.size.num_computed(),
                                  .num_sequences = static_cast<std::uint32_t>(flight.passes.size()),
                                  .num_running = static_cast<std::uint32_t>(in_batches_.size()),
                                  .num_waiting = static_cast<std::uint32_t>(num_waiting()),
                                  .is_lost = result == nullptr});
}

void EncoderCore::take(const SchedulerTick&) {
  expire_waiting();
  look_after_devices();
  advance();
}

// Deadlines run from arrival and end when a request has begun.
void EncoderCore::expire_waiting() {
  std::vector<Arrival> expired;
  for (const auto& [arrival, pass] : passes_)
    if (pass.is_new() && now_ - pass.arrived > options_.serving.max_queue_time) expired.push_back(arrival);
  for (const Arrival arrival : expired)
    fail(arrival, SequenceFailure::kQueueTimeout,
         "The request waited longer than " + std::to_string(options_.serving.max_queue_time.count()) +
             " ms for its turn; try again later.");
}

void EncoderCore::look_after_devices() {
  for (WorkerStalled& stalled : workers_.look(now_)) {
    is_given_up_ = is_given_up_ || stalled.is_hopeless;
    out_->push_back(std::move(stalled));
  }
}

void EncoderCore::flush_if_idle() {
  if (flushes_.empty() || num_in_flight() > 0) return;
  for (const std::uint64_t number : std::exchange(flushes_, {})) out_->push_back(Flushed{.number = number});
}

void EncoderCore::fail(Arrival arrival, SequenceFailure failure, std::string message,
                       std::optional<std::string> field) {
  emit(passes_.at(arrival).ticket->sequence,
       SequenceFailed{.failure = failure, .message = std::move(message), .field = std::move(field)});
  release(arrival);
}

void EncoderCore::release(Arrival arrival) {
  const auto found = passes_.find(arrival);
  const Pass& pass = found->second;
  if (in_batches_.erase(arrival) > 0) {
    flows_.stop(pass.flow);
  } else {
    flows_.withdraw(pass.flow, arrival);
  }
  flows_.leave(pass.flow);
  num_new_ -= pass.is_new() ? 1 : 0;
  suspects_.forget(pass.ticket->sequence);
  arrival_of_.erase(pass.ticket->sequence);
  passes_.erase(found);
}

std::size_t EncoderCore::num_running(WorkerId worker) const {
  return static_cast<std::size_t>(
      std::count_if(in_batches_.begin(), in_batches_.end(),
                    [worker](const auto& entry) { return entry.second == worker; }));
}

const AdmissionTicket* EncoderCore::find(SequenceId id) const {
  const auto found = arrival_of_.find(id);
  return found == arrival_of_.end() ? nullptr : passes_.at(found->second).ticket.get();
}

void EncoderCore::emit(SequenceId id, SequenceOutput output) {
  out_->emplace_back(std::in_place_type<Emit>, Emit{.sequence = id, .output = std::move(output)});
}

}  // namespace troupe
