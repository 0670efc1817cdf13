// SPDX-License-Identifier: Apache-2.0
// The part of the core that runs in every iteration: pages ahead, admission, the
// next batches, their results.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <utility>

#include "engine/batch_builder.hpp"
#include "engine/engine_core.hpp"

namespace troupe {
namespace {

void prefetch(const void* place, std::size_t num_bytes) {
  const auto* bytes = static_cast<const char*>(place);
  for (std::size_t line = 0; line < num_bytes; line += 64) __builtin_prefetch(bytes + line);
}

// Sequences of a batch lie apart in memory: by the time it is their turn they are near.
constexpr std::size_t kAhead = 6;
static_assert(offsetof(Sequence, end_tokens) <= 192, "what every token needs is in three lines");
void prefetch(const Sequence& sequence) { prefetch(&sequence, offsetof(Sequence, end_tokens)); }

// Memory of what is forgotten at the end of a call: none is asked for in any iteration of a usual batch.
struct Scratch {
  std::array<std::byte, 8192> place;
  std::pmr::monotonic_buffer_resource memory{place.data(), place.size()};
};

std::size_t num_slices(const SequenceStep& step) { return step.scores ? step.num_tokens : 1; }

BatchCandidate candidate_of(const Sequence& sequence, std::uint32_t page_size) {
  BatchCandidate candidate{.progress = &sequence.progress,
                           .page_capacity = static_cast<std::uint32_t>(sequence.pages.size()) * page_size,
                           .flow = sequence.flow,
                           .last_batch = sequence.last_batch};
  if (sequence.is_penalized)
    candidate.num_penalized_tokens = static_cast<std::uint32_t>(sequence.penalized->tokens().size());
  return candidate;
}

}  // namespace

struct EngineCore::SliceResults {
  const BatchResult& result;
  std::size_t first = 0, count = 0;

  std::int32_t token(std::size_t i) const {
    return first + i < result.tokens.size() ? result.tokens[first + i] : -1;
  }
  bool has_token(std::int32_t wanted) const {
    for (std::size_t i = 0; i < count; ++i)
      if (token(i) == wanted) return true;
    return false;
  }
  std::chrono::nanoseconds mask_wait() const {
    const auto& waits = result.mask_wait_nanoseconds;
    return std::chrono::nanoseconds(first < waits.size() ? waits[first] : 0);
  }
  const TokenLogprobs* logprobs(std::size_t i) const {  // null if the batch has none
    return first + i < result.logprobs.size() ? &result.logprobs[first + i] : nullptr;
  }
};

// Running sequences are served with pages before others join them.
void EngineCore::advance() {
  for (WorkerId id = 0; id < workers_.size(); ++id)
    if (workers_[id].health.is_up)
      while (extend(id, workers_[id])) {
      }
  while (admit_next()) {
  }
  for (Worker& worker : workers_) worker.lacks_slots = worker.free_slots.empty();
  if (options_.shares_workers) return;
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    Worker& worker = workers_[id];
    if (!worker.health.is_up) continue;
    while (worker.in_flight.size() < options_.serving.max_in_flight && submit_batch(id, worker)) {
    }
  }
}

// True: pages have come back meanwhile, and it is worth trying again.
bool EngineCore::extend(WorkerId id, Worker& worker) {
  if (worker.is_extension_blocked) return false;
  const PageSizing sizing = page_sizing(worker);
  std::optional<SequenceIndex> needy;  // the first to arrive
  for (const SequenceIndex index : worker.running) {
    Sequence& sequence = sequences_[index];
    if (sequence.is_paused) continue;
    const auto num_held = static_cast<std::uint32_t>(sequence.pages.size());
    PageDemand demand = extension_demand(sequence.progress, sizing, num_held);
    limit_look_ahead(demand);
    if (demand.wanted == 0) continue;
    const auto pages = pages_.extend(sequence.worker, sequence.lease, demand, now_);
    sequence.pages.insert(sequence.pages.end(), pages.begin(), pages.end());
    if (!pages.empty()) continue;
    worker.is_extension_blocked = true;
    if (demand.required > 0 && !needy) needy = index;
  }
  if (needy && !has_departed(id)) relieve_shortage(worker, *needy);
  return needy && !worker.is_extension_blocked;
}

// The tokens whose KV may come from shared pages.
PageMap::Lookup EngineCore::lookup_of(const Sequence& sequence) const {
  const std::size_t num_reusable = keeps_tokens_ ? sequence.progress.num_reusable() : 0;
  return {.tokens = std::span(sequence.tokens).first(num_reusable),
          .cache_salt = options_.source ? sequence.source_salt : sequence.ticket->cache_salt,
          .quota = sequence.ticket->cache_quota};
}

bool EngineCore::submit_batch(WorkerId id, Worker& worker, std::chrono::nanoseconds longest) {
  Scratch scratch;
  const Participants participants = choose_participants(worker, &scratch.memory);
  if (waits_for_masks(worker, participants)) return false;
  std::pmr::vector<BatchCandidate> candidates(&scratch.memory);
  candidates.reserve(participants.size());
  for (const SequenceIndex index : participants)
    candidates.push_back(candidate_of(sequences_[index], worker.device.page_size));
  const auto shares = form_next(worker, candidates, longest);
  const bool go_alone = pages_.has_copies_that_go_alone(id) && worker.in_flight.empty();
  if (shares.empty() && !go_alone) return false;

  SubmitBatch command{.worker = id, .epoch = worker.health.epoch, .batch_id = ++last_batch_};
  worker.in_flight.push_back(take_off(worker, participants, shares, command));
  idle_since_.reset();
  is_idle_too_long_ = false;
  out_->push_back(std::move(command));
  return true;
}

// A batch is of one cell: sources and answers take turns where there are both.
std::vector<BatchShare> EngineCore::form_next(Worker& worker, std::span<const BatchCandidate> candidates,
                                              std::chrono::nanoseconds longest) const {
  const BatchLimits limits = limits_of_batch(worker, candidates, longest);
  if (!options_.source) return form_batch(candidates, limits);
  const bool had_sources = worker.has_read_sources;
  for (const bool reads_sources : {!had_sources, had_sources}) {
    auto shares = reads_sources ? form_source_batch(candidates, limits) : form_batch(candidates, limits);
    worker.has_read_sources = reads_sources;
    if (!shares.empty()) return shares;
  }
  return {};
}

// A guided sequence has a step in each batch like any other: where one runs on a device that does not wait
// for masks, no batch is formed before the last one is done and what each may draw next is known. A guide
// that was late by too much is not waited for again: it misses batches.
bool EngineCore::waits_for_masks(const Worker& worker, const Participants& participants) const {
  if (worker.device.waits_for_masks) return false;
  return std::any_of(participants.begin(), participants.end(), [&](SequenceIndex index) {
    const Sequence& sequence = sequences_[index];
    if (!sequence.is_guided || sequence.is_guide_slow || sequence.draws_freely()) return false;
    // Its mask is used up only by a draw in flight: chunks of a prompt but the last draw nothing.
    if (sequence.allowed) return sequence.progress.num_pending() > 0;
    return now_ - sequence.drawn <= kLongestMaskWait;
  });
}

// Streams that run keep their pace: the first prompt's context says what tokens cost.
BatchLimits EngineCore::limits_of_batch(const Worker& worker, std::span<const BatchCandidate> candidates,
                                        std::chrono::nanoseconds longest) const {
  BatchLimits limits = worker.limits;
  const double itl_factor = options_.serving.itl_factor;
  if (itl_factor <= 1) return limits;
  const auto prompt = std::find_if(candidates.begin(), candidates.end(),
                                   [](const auto& candidate) { return candidate.progress->is_prefilling(); });
  if (prompt == candidates.end()) return limits;
  const std::uint32_t context = prompt->progress->num_submitted();
  limits.max_prompt_tokens = worker.pace.max_prompt_tokens(itl_factor, context);
  // Streams of a model that separates prompts wait for the last of them: small batches would take longer.
  if (longest.count() > 0 && !limits.separates_prefill)
    limits.max_lone_prompt_tokens = worker.pace.prompt_tokens_within(longest, context);
  return limits;
}

EngineCore::Flight EngineCore::take_off(Worker& worker, const Participants& participants,
                                        const std::vector<BatchShare>& shares, SubmitBatch& command) {
  Flight flight{.batch_id = command.batch_id,
                .submitted = now_,
                .entries = std::exchange(spare_entries_, {}),
                .copies = pages_.take_copies(command.worker)};
  flight.entries.reserve(shares.size());
  std::shared_ptr<Batch> batch;
  if (options_.makes_batches) {
    batch = std::make_shared<Batch>();
    batch->id = command.batch_id;
    const bool reads_sources = !shares.empty() && shares.front().step.reads_source;
    batch->cell = options_.source && !reads_sources ? 1 : 0;
    batch->copies = flight.copies;
    batch->slices.reserve(shares.size());
  } else {
    command.copies = flight.copies;
    command.steps.reserve(shares.size());
  }
  for (const BatchShare& share : shares) {
    const SequenceIndex index = participants[share.candidate];
    Sequence& sequence = sequences_[index];
    const bool asks_state = wants_state(sequence, share.step, worker);
    if (batch) {
      add_slice(*batch, sequence, share.step, worker.device);
      if (asks_state) batch->slices.back().wants_state = true;
    } else {
      command.steps.push_back(
          {.sequence = sequence.id, .samples = share.step.sample, .wants_state = asks_state});
    }
    flight.shape.add(share.step);
    if (sequence.is_guided && share.step.sample) await_mask(sequence, batch.get());
    flight.num_decodes += share.step.sample && share.step.num_tokens == 1 ? 1 : 0;
    sequence.progress.submitted(share.step);
    sequence.last_batch = command.batch_id;
    flight.entries.push_back({.run = sequence.run,
                              .id = sequence.id,
                              .lease = sequence.lease,
                              .step = share.step,
                              .sequence = index,
                              .attempt = sequence.is_guided ? sequence.attempt : 0,
                              .wants_state = asks_state});
  }
  if (batch && !batch->awaited_masks.empty()) batch->awaited_masks.resize(batch->slices.size());
  command.shape = flight.shape;
  command.batch = std::move(batch);
  return flight;
}

// batch: null if none is made; the draw is its last slice.
void EngineCore::await_mask(Sequence& sequence, Batch* batch) const {
  const bool awaits_none = sequence.is_mask_known() || sequence.draws_freely();
  sequence.mask_slots.push_back(awaits_none ? nullptr : std::make_shared<MaskSlot>());
  if (!batch || !sequence.mask_slots.back()) return;
  batch->awaited_masks.resize(batch->slices.size());
  batch->awaited_masks.back() = sequence.mask_slots.back();
}

EngineCore::Participants EngineCore::choose_participants(const Worker& worker,
                                                         std::pmr::memory_resource* memory) const {
  Participants participants(memory);
  participants.reserve(worker.running.size());
  for (const SequenceIndex index : worker.running)
    if (!sequences_[index].is_paused) participants.push_back(index);
  if (suspects_.is_empty()) return participants;
  std::vector<SequenceId> running, in_flight;
  for (const SequenceIndex index : participants) running.push_back(sequences_[index].id);
  for (const Flight& flight : worker.in_flight)
    for (const FlightEntry& entry : flight.entries) in_flight.push_back(entry.id);
  Participants chosen(memory);
  for (const std::size_t index : suspects_.choose_participants(running, in_flight))
    chosen.push_back(participants[index]);
  return chosen;
}

void EngineCore::take(const BatchDone& event) {
  auto flight = workers_.take_done(event);
  if (!flight) return;
  Worker& worker = workers_[event.worker];
  worker.health.finish(flight->owed(), now_);
  const auto time = now_ - std::max(flight->submitted, worker.health.last_done);
  report_iteration(event.worker, worker, *flight, &event.result);
  absorb(event.worker, *flight, event.result, time);
  flight->entries.clear();
  spare_entries_ = std::move(flight->entries);
  worker.is_admission_blocked = worker.is_extension_blocked = false;
  advance();
}

void EngineCore::prefetch_core() const { prefetch(this, sizeof(*this)); }

void EngineCore::prefetch_worker(WorkerId id) const {
  if (id < workers_.size()) prefetch(&workers_[id], sizeof(Worker));
}

void EngineCore::prefetch_batch(WorkerId id) const {
  if (num_in_flight(id) == 0) return;
  const Worker& worker = workers_[id];
  prefetch(worker.in_flight.data(), sizeof(Flight));
  prefetch(worker.running.data(), worker.running.size() * sizeof(SequenceIndex));
}

void EngineCore::prefetch_entries(WorkerId id) const {
  if (num_in_flight(id) == 0) return;
  const auto& entries = workers_[id].in_flight.front().entries;
  prefetch(entries.data(), entries.size() * sizeof(FlightEntry));
}

// time: of the batch, on the device.
void EngineCore::absorb(WorkerId id, const Flight& flight, const BatchResult& result,
                        std::chrono::nanoseconds time) {
  if (!result.failed_loads.empty()) {
    pages_.void_contents(result.failed_loads);
    out_->push_back(PagesNotIntact{.generations = result.failed_loads});
  }
  bool has_committed = false;
  std::vector<FlightEntry> nearing;  // the ends of their reservations
  std::size_t next_slice = 0;
  const std::size_t num_states = std::max<std::size_t>(1, flight.num_wanted_states());
  StatesLeft states{.numbers = result.states, .width = result.states.size() / num_states};
  std::optional<std::size_t> asked;  // with the states: the command of all
  for (std::size_t i = 0; i < std::min(kAhead, flight.entries.size()); ++i)
    prefetch(sequences_[flight.entries[i].sequence]);
  for (std::size_t i = 0; i < flight.entries.size(); ++i) {
    const FlightEntry& entry = flight.entries[i];
    if (i + kAhead < flight.entries.size()) prefetch(sequences_[flight.entries[i + kAhead].sequence]);
    const SliceResults slices{.result = result, .first = next_slice, .count = num_slices(entry.step)};
    next_slice += slices.count;
    const auto state = entry.wants_state ? states.take() : std::span<const float>();
    Sequence* sequence = find_run(entry.sequence, entry.run);
    if (!sequence) {  // it ended, or lost its pages, meanwhile
      drop_departed(entry.lease);
      continue;
    }
    if (slices.has_token(kVoidContext)) {
      interrupt(entry.sequence, StopReason::kContextLost);
      drop_departed(entry.lease);  // this step was the first of those in flight
      continue;
    }
    if (sequence->is_guided && has_drawn_nothing(*sequence, entry, slices)) {
      drop_step(entry, slices);
      continue;
    }
    sequence->progress.completed(entry.step);
    sequence->batches += {.num_batches = 1, .num_sequences = flight.entries.size(), .time = time};
    if (!suspects_.is_empty())
      suspects_.computed(entry.id, entry.step.context_length + entry.step.num_tokens);
    has_committed = commit_pages(*sequence, entry.step) || has_committed;
    if (!state.empty()) ask_with_state(*sequence, state, asked);
    if (entry.step.scores) {
      absorb_scores(entry.sequence, slices);
    } else if (entry.step.sample && absorb_token(entry.sequence, slices)) {
      has_committed = commit_tail(*sequence) || has_committed;
      release(entry.sequence);
    }
    if (sequence->run != entry.run) continue;
    if (sequence->nears_reservation()) nearing.push_back(entry);
    if (sequence->is_paused) settle_pause(entry.sequence);
  }
  for (const FlightEntry& entry : nearing)
    if (find_run(entry.sequence, entry.run)) settle_overrun(entry.sequence);
  if (flight.num_decodes > 0 && suspects_.needs_proof()) forgive_deaths();
  if (!flight.entries.empty()) pages_.note_iteration(id, time, flight.copies);
  if (has_committed) pages_.copy_ahead(id, now_);
  if (!flight.copies.empty()) pages_.copies_done(id, flight.copies);
  pages_.move_on(now_);
}

// The last step that may write to pages that were given up is done.
void EngineCore::drop_departed(LeaseId lease) {
  const auto found = departed_.find(lease);
  if (found == departed_.end() || --found->second.num_in_flight > 0) return;
  departed_.erase(found);
  pages_.release(lease, now_);
  forget_pages();
}

// The device works.
void EngineCore::forgive_deaths() {
  auto forgiven = suspects_.take_work();
  if (!forgiven.empty()) out_->push_back(DeathsForgiven{.epochs = std::move(forgiven)});
}

void EngineCore::absorb_scores(SequenceIndex index, const SliceResults& slices) {
  for (std::size_t i = 0; i < slices.count; ++i) {
    const TokenLogprobs* logprobs = slices.logprobs(i);
    if (slices.token(i) < 0 || logprobs == nullptr)
      return fail(index, SequenceFailure::kDeviceFault, "The device could not score the prompt.");
    sequences_[index].prompt_logprobs.push_back(*logprobs);
  }
}

// True: it was the sequence's last.
bool EngineCore::absorb_token(SequenceIndex index, const SliceResults& slices) {
  Sequence& sequence = sequences_[index];
  const std::int32_t token = slices.token(0);
  if (token < 0 || static_cast<std::uint32_t>(token) >= limits_->vocabulary_size) {
    fail(index, SequenceFailure::kDeviceFault, "The device drew no valid token.");
    return false;
  }
  if (keeps_tokens_) sequence.tokens.push_back(token);
  flows_.charge(sequence.flow, FairQueue::kDrawnTokenCost);
  if (sequence.is_penalized) sequence.penalized->add(token);
  if (sequence.is_guided) note_drawn(sequence, slices);
  sequence.has_progressed = true;
  NewToken& output = emit_token(sequence.id);
  output.token = token;
  output.index = sequence.num_generated();
  output.cached_tokens = sequence.cached_tokens;
  output.started = sequence.started;
  output.batches = sequence.batches;
  const TokenLogprobs* logprobs = slices.logprobs(0);
  if (logprobs && sequence.wants_logprobs) output.logprobs = std::make_shared<const TokenLogprobs>(*logprobs);
  if (sequence.scores_prompt && sequence.num_generated() == 1)
    output.prompt_logprobs =
        std::make_shared<const std::vector<TokenLogprobs>>(std::move(sequence.prompt_logprobs));
  if (sequence.is_only_scored) {
    output.token = -1;
    output.end = SequenceEnd::kLength;
  } else if (sequence.is_at_foreseen_end() ||
             (sequence.num_generated() > sequence.min_tokens && sequence.is_ended_by(token))) {
    sequence.length.is_whole = true;
    output.end = SequenceEnd::kEndToken;
  } else if (sequence.progress.is_at_limit()) {
    output.end = SequenceEnd::kLength;
  }
  return output.end != SequenceEnd::kNotYet;
}

// A guided sequence has got a token, on which hangs what may be next. What was drawn ahead behind a free
// one is void if this one is none.
void EngineCore::note_drawn(Sequence& sequence, const SliceResults& slices) {
  if (sequence.mask_slots.front()) note_mask_wait(sequence, slices.mask_wait());
  sequence.mask_slots.erase(sequence.mask_slots.begin());
  sequence.draws_again = false;
  if (!sequence.free || !has_token(*sequence.free, static_cast<std::size_t>(slices.token(0)))) {
    if (sequence.free && sequence.progress.num_pending() > 0) take_back_draws(sequence);
    sequence.allowed = sequence.free = nullptr;
    sequence.drawn = now_;
  }
  allow_draw(sequence);
}

// A draw whose mask did not come, a free one that may not be, or a step behind such a one.
bool EngineCore::has_drawn_nothing(const Sequence& sequence, const FlightEntry& entry,
                                   const SliceResults& slices) {
  if (entry.attempt != sequence.attempt) return true;
  if (!entry.step.sample) return false;
  const std::int32_t token = slices.token(0);
  if (token == kNoMask) return sequence.mask_slots.front() != nullptr;
  return sequence.draws_freely() && token >= 0 &&
         !has_token(*sequence.allowed, static_cast<std::size_t>(token));
}

// As if the step had not been: the draw is submitted again when its mask is known.
void EngineCore::drop_step(const FlightEntry& entry, const SliceResults& slices) {
  Sequence& sequence = sequences_[entry.sequence];
  if (entry.attempt == sequence.attempt) {
    if (sequence.mask_slots.front()) note_mask_wait(sequence, slices.mask_wait());
    sequence.draws_again = sequence.draws_freely() && !slices.has_token(kNoMask);
    take_back_draws(sequence);
    if (sequence.draws_freely()) {
      sequence.progress.draw_ahead();
    } else {
      sequence.progress.draw_by_permission(sequence.allowed != nullptr);
    }
  }
  sequence.progress.drop_step();
  if (sequence.is_paused) settle_pause(entry.sequence);
}

// All in flight that drew, which are still to come, are void.
void EngineCore::take_back_draws(Sequence& sequence) {
  close_masks(sequence);
  sequence.attempt += 1;
  sequence.progress.take_back_draws();
}

// Pages become shareable once the KV of their last token is there. True if some did.
bool EngineCore::commit_pages(const Sequence& sequence, const SequenceStep& step) {
  const std::uint32_t page_size = pages_.page_size();
  const std::uint32_t first = step.context_length / page_size;
  const std::uint32_t end = (step.context_length + step.num_tokens) / page_size;
  if (!options_.serving.keeps_prefixes() || first == end) return false;
  pages_.commit(sequence.lease, first,
                std::span(sequence.tokens)
                    .subspan(std::size_t{first} * page_size, std::size_t{end - first} * page_size),
                now_);
  return true;
}

// The page that a sequence leaves half full at its end. True if there is one.
bool EngineCore::commit_tail(const Sequence& sequence) {
  const std::uint32_t page_size = pages_.page_size();
  const std::uint32_t end = sequence.progress.num_computed();
  if (!options_.serving.keeps_prefixes() || end % page_size == 0) return false;
  pages_.commit(sequence.lease, end / page_size,
                std::span(sequence.tokens).subspan(end - end % page_size, end % page_size), now_);
  return true;
}

// result: null if its worker died.
void EngineCore::report_iteration(WorkerId id, Worker& worker, const Flight& flight,
                                  const BatchResult* result) {
  IterationReport report{.worker = id,
                         .epoch = worker.health.epoch,
                         .batch_id = flight.batch_id,
                         .begun = std::max(flight.submitted, worker.health.last_done),
                         .ended = now_,
                         .network_nanoseconds = result ? result->network_nanoseconds : 0,
                         .num_tokens = flight.shape.num_tokens,
                         .num_sequences = static_cast<std::uint32_t>(flight.entries.size()),
                         .num_decodes = flight.num_decodes,
                         .shape = flight.shape,
                         .num_running = static_cast<std::uint32_t>(worker.running.size()),
                         .num_waiting = static_cast<std::uint32_t>(waiting_.size()),
                         .num_copies = static_cast<std::uint32_t>(flight.copies.size()),
                         .is_lost = result == nullptr};
  if (result) {
    worker.health.last_done = now_;
    if (report.has_slices())
      worker.pace.observe(
          flight.shape, flight.num_decodes,
          report.ended - report.begun - std::chrono::nanoseconds(result->mask_sleep_nanoseconds));
  }
  out_->push_back(std::move(report));
}

}  // namespace troupe
