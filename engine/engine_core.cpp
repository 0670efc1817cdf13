// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_core.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "engine/queue_full.hpp"

namespace troupe {
namespace {

// Requests wait, no device has a batch: that is a defect of ours.
constexpr std::chrono::seconds kLongestIdle{10};
constexpr std::chrono::seconds kHopelesslyIdle{60};
constexpr std::size_t kUsualAnswer = 256;  // tokens

ServingLimits limits_of(const DeviceDescription& device) {
  return {.context_length = device.context_length,
          .page_capacity = device.num_pages * device.page_size,
          .vocabulary_size = device.vocabulary_size};
}

}  // namespace

EngineCore::EngineCore(CoreOptions options)
    : options_(std::move(options)),
      keeps_tokens_(options_.makes_batches || options_.serving.keeps_prefixes()),
      pages_(options_.serving, options_.pages),
      flows_(options_.serving.admission_order, options_.serving.most_wait) {}

void EngineCore::on(const Event& event, TimePoint now, Commands& out) {
  now_ = now;
  out_ = &out;
  const std::size_t first_command = out.size();
  std::visit([this](const auto& happened) { take(happened); }, event);
  note_waiting(first_command);
  transfer_pages();
  flush_if_idle();
  out_ = nullptr;
}

bool EngineCore::submit_one(WorkerId worker, std::chrono::nanoseconds longest, TimePoint now, Commands& out) {
  if (!workers_.is_up(worker)) return false;
  now_ = now;
  out_ = &out;
  advance();
  const bool has_submitted = submit_batch(worker, workers_[worker], longest);
  transfer_pages();
  out_ = nullptr;
  return has_submitted;
}

bool EngineCore::has_prompts_in_flight(WorkerId worker) const {
  if (worker >= workers_.size()) return false;
  const auto& flights = workers_[worker].in_flight;
  return std::any_of(flights.begin(), flights.end(),
                     [](const Flight& flight) { return flight.num_decodes < flight.shape.num_tokens; });
}

void EngineCore::wait_for_others(WorkerId worker, TimePoint now) {
  if (worker >= workers_.size()) return;
  workers_.wait_for_others(worker, now);
  idle_since_.reset();  // that others' batches are in front is no defect
  is_idle_too_long_ = false;
}

bool EngineCore::has_suspects() const {
  return suspects_.has_any([this](SequenceId id) {
    const Sequence* sequence = find(id);
    return sequence && sequence->phase != Sequence::Phase::kPaused;
  });
}

std::chrono::nanoseconds EngineCore::decode_time(WorkerId worker) const {
  if (worker >= workers_.size()) return {};
  const auto& running = workers_[worker].running;
  const bool has_streams = std::any_of(running.begin(), running.end(), [this](SequenceIndex index) {
    return !sequences_[index].progress.is_prefilling();
  });
  return has_streams ? workers_[worker].pace.decode_time() : std::chrono::nanoseconds{};
}

void EngineCore::take(const Admit& event) {
  // A request that can't be served takes no other one's place.
  if (is_queue_full() && limits_)
    if (auto refused = refusal_in(check(*event.ticket)))
      return emit(event.ticket->sequence, std::move(*refused));
  if (!find_place(*event.ticket))
    return emit(event.ticket->sequence,
                SequenceFailed{.failure = SequenceFailure::kQueueFull,
                               .message = queue_full_message(options_.serving.max_waiting)});
  const SequenceIndex index = add(event.ticket);
  enqueue(index);
  if (limits_ && !check(index)) return;
  advance();
}

EngineCore::SequenceIndex EngineCore::add(std::shared_ptr<const AdmissionTicket> ticket) {
  if (free_indexes_.empty()) {
    free_indexes_.push_back(static_cast<SequenceIndex>(sequences_.size()));
    sequences_.emplace_back();
  }
  const SequenceIndex index = free_indexes_.back();
  free_indexes_.pop_back();
  Sequence& sequence = sequences_[index];
  sequence = {};
  sequence.id = ticket->sequence;
  sequence.arrival = ++last_arrival_;
  sequence.flow = flows_.join(ticket->flow);
  sequence.arrived = now_;
  sequence.run = ++last_run_;
  sequence.min_tokens = ticket->min_tokens;
  sequence.scores_prompt = ticket->scores_prompt;
  sequence.wants_logprobs = ticket->sampling.wants_logprobs();
  sequence.is_guided = ticket->allowed_first != nullptr;
  const std::size_t num_end_tokens = ticket->end_tokens.size();
  sequence.num_end_tokens = static_cast<std::uint8_t>(std::min(num_end_tokens, Sequence::kFewEndTokens + 1));
  if (num_end_tokens <= Sequence::kFewEndTokens)
    std::copy(ticket->end_tokens.begin(), ticket->end_tokens.end(), sequence.end_tokens.begin());
  sequence.num_prompt = static_cast<std::uint32_t>(ticket->prompt.size());
  if (options_.source) {
    sequence.num_prompt =
        static_cast<std::uint32_t>(num_source(*ticket) + options_.source->answer_begins.size());
    sequence.source_salt = salt_of(*ticket);
  }
  if (keeps_tokens_) {
    sequence.tokens.reserve(sequence.num_prompt + kUsualAnswer);
    sequence.tokens = ticket->prompt;
    if (options_.source) add_beginning(sequence.tokens);
  }
  sequence.is_penalized = ticket->sampling.has_penalties();
  if (sequence.is_penalized) sequence.penalized.emplace(ticket->repeated_prompt);
  sequence.ticket = std::move(ticket);
  index_of_.emplace(sequence.id, index);
  return index;
}

std::uint32_t EngineCore::num_source(const AdmissionTicket& ticket) const {
  if (!options_.source) return 0;
  return static_cast<std::uint32_t>(ticket.prompt.size()) + (options_.source->source_end >= 0 ? 1 : 0);
}

// Behind a prompt: what else is known from the start.
void EngineCore::add_beginning(std::vector<std::int32_t>& tokens) const {
  const SourceRule& rule = *options_.source;
  if (rule.source_end >= 0) tokens.push_back(rule.source_end);
  tokens.insert(tokens.end(), rule.answer_begins.begin(), rule.answer_begins.end());
}

// Keys and values of a source hang on all of it: none of its pages is one of a longer source, too.
std::string EngineCore::salt_of(const AdmissionTicket& ticket) {
  std::string salt;
  for (const std::int32_t token : ticket.prompt) salt += std::to_string(token) + ' ';
  return salt + '|' + ticket.cache_salt;
}

std::optional<Refusal> EngineCore::refuse_source(const AdmissionTicket& ticket) const {
  if (!options_.source) return std::nullopt;
  if (ticket.scores_prompt)
    return Refusal{.message = "This model reads its prompt as a whole, and gives no log-probabilities of it.",
                   .field = "echo"};
  const std::uint32_t added = num_source(ticket) - static_cast<std::uint32_t>(ticket.prompt.size());
  if (num_source(ticket) <= max_source_) return std::nullopt;
  return Refusal{.is_too_long = true,
                 .message = "This model reads prompts of at most " +
                            std::to_string(max_source_ - std::min(added, max_source_)) +
                            " tokens; this one has " + std::to_string(ticket.prompt.size()) + ".",
                 .field = "prompt"};
}

EngineCore::Verdict EngineCore::check(const AdmissionTicket& ticket) const {
  if (auto refused = refuse_source(ticket)) return *std::move(refused);
  std::vector<std::int32_t> biased_ids;
  for (const TokenBias& token : ticket.biased) biased_ids.push_back(token.id);
  std::vector<std::int32_t> with_source;
  if (options_.source && !ticket.prompt.empty()) {
    with_source = ticket.prompt;
    add_beginning(with_source);
  }
  auto checked = check_admission({.prompt = options_.source ? with_source : ticket.prompt,
                                  .max_tokens = ticket.max_tokens,
                                  .min_tokens = ticket.min_tokens,
                                  .stop_token_ids = ticket.end_tokens,
                                  .biased_ids = biased_ids},
                                 *limits_);
  if (auto* max_total = std::get_if<std::uint32_t>(&checked); max_total && options_.source)
    *max_total = std::min(*max_total, num_source(ticket) + options_.source->max_answer);
  return checked;
}

std::optional<SequenceFailed> EngineCore::refusal_in(const Verdict& verdict) {
  const auto* refusal = std::get_if<Refusal>(&verdict);
  if (!refusal) return std::nullopt;
  return SequenceFailed{
      .failure = refusal->is_too_long ? SequenceFailure::kContextTooLong : SequenceFailure::kInvalidRequest,
      .message = refusal->message,
      .field = refusal->field};
}

// False if it was refused, or had nothing to generate, and is gone.
bool EngineCore::check(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  const AdmissionTicket& ticket = *sequence.ticket;
  const Verdict verdict = check(ticket);
  if (auto refused = refusal_in(verdict)) {
    fail(index, refused->failure, std::move(refused->message), std::move(refused->field));
    return false;
  }
  sequence.is_checked = true;
  emit(sequence.id, Admitted{});
  const auto max_total = std::get<std::uint32_t>(verdict);
  const std::uint32_t num_prompt = sequence.num_prompt;
  sequence.is_only_scored = max_total == num_prompt && ticket.scores_prompt;
  if (max_total == num_prompt && !ticket.scores_prompt) {
    emit(sequence.id, NewToken{.sequence = sequence.id, .token = -1, .end = SequenceEnd::kLength});
    release(index);
    return false;
  }
  const std::uint32_t num_drawn = take_drawn(sequence, max_total - num_prompt);
  sequence.progress = SequenceProgress(num_prompt + num_drawn, max_total + (sequence.is_only_scored ? 1 : 0),
                                       options_.serving.max_in_flight);
  sequence.progress.begin_with_source(num_source(ticket));
  if (num_drawn == 0) {
    sequence.allowed = ticket.allowed_first;
    sequence.free = ticket.free_first;
  }
  if (sequence.is_guided) sequence.progress.draw_by_permission(num_drawn == 0);
  if (ticket.scores_prompt) sequence.progress.score_known();
  foresee(index);
  return true;
}

// The last token that it may have is drawn again, which ends it; one that is none, and those
// behind it, too. How many it has.
std::uint32_t EngineCore::take_drawn(Sequence& sequence, std::uint32_t max_tokens) const {
  const auto& drawn = sequence.ticket->drawn;
  if (drawn.empty() || !keeps_tokens_) return 0;
  std::uint32_t number = 0;
  for (const std::int32_t token :
       std::span(drawn).first(std::min<std::size_t>(drawn.size(), max_tokens - 1))) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= limits_->vocabulary_size) break;
    sequence.tokens.push_back(token);
    if (sequence.is_penalized) sequence.penalized->add(token);
    number += 1;
  }
  return number;
}

// Reports the tokens that an earlier process drew, as if they had just come.
void EngineCore::report_drawn(const Sequence& sequence) {
  for (std::uint32_t i = 0; i < sequence.num_generated(); ++i)
    emit(sequence.id, NewToken{.sequence = sequence.id,
                               .token = sequence.tokens[sequence.num_prompt + i],
                               .index = i + 1,
                               .cached_tokens = sequence.cached_tokens,
                               .started = sequence.started});
}

void EngineCore::fail(SequenceIndex index, SequenceFailure failure, std::string message,
                      std::optional<std::string> field) {
  emit(sequences_[index].id,
       SequenceFailed{.failure = failure, .message = std::move(message), .field = std::move(field)});
  release(index);
}

void EngineCore::take(const StopSequence& event) {
  const auto index = index_of(event.sequence);
  if (!index) return;
  Sequence& sequence = sequences_[*index];
  sequence.length.is_whole = event.is_answered;
  // A load of found pages may still fail: the tail is kept only if something was computed
  // behind them, which shows that they arrived.
  if (sequence.phase == Sequence::Phase::kRunning &&
      sequence.progress.num_computed() > sequence.num_found_at_start)
    commit_tail(sequence);
  release(*index);
  advance();
}

void EngineCore::take(const PauseSequence& event) {
  const auto index = index_of(event.sequence);
  if (!index) return;
  sequences_[*index].is_paused = true;
  settle_pause(*index);
  advance();
}

// A paused sequence gives up its slot and its pages: no other has to do without
// because its client does not read. Its full pages stay in the prefix cache as
// long as there is room, so coming back is cheap.
void EngineCore::settle_pause(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  if (!sequence.is_paused || sequence.progress.num_in_flight() > 0) return;
  if (sequence.phase == Sequence::Phase::kPaused) return;
  if (sequence.phase == Sequence::Phase::kRunning) interrupt(index, StopReason::kPaused);
  leave_queue(sequence);
  sequence.run = ++last_run_;  // voids a fetch on its way
  sequence.phase = Sequence::Phase::kPaused;
}

void EngineCore::take(const ResumeSequence& event) {
  const auto index = index_of(event.sequence);
  if (!index || !sequences_[*index].is_paused) return;
  sequences_[*index].is_paused = false;
  if (sequences_[*index].phase == Sequence::Phase::kPaused) {
    enqueue(*index);
    // Paused while no device was there yet, it could not be checked when one came.
    if (limits_ && !sequences_[*index].is_checked && !check(*index)) return;
  }
  advance();
}

// A mask for a sequence that has ended, or for a token that is drawn already, is ignored.
void EngineCore::take(const AllowTokens& event) {
  const auto index = index_of(event.sequence);
  if (!index) return;
  Sequence& sequence = sequences_[*index];
  if (!sequence.is_guided || sequence.allowed || event.num_generated != sequence.num_generated()) return;
  sequence.allowed = event.allowed;
  sequence.free = event.free;
  if (!sequence.mask_slots.empty()) return hand_mask(sequence);
  allow_draw(sequence);
  if (is_waited_for_here(sequence)) note_mask_wait(sequence, now_ - sequence.drawn);
  advance();
}

// Its next token may be drawn, or is to be waited for, as what may be drawn is known.
void EngineCore::allow_draw(Sequence& sequence) const {
  const bool waits_on_device = may_draw_ahead(sequence) && !sequence.draws_again;
  if (sequence.draws_freely() || waits_on_device) {
    sequence.progress.draw_ahead();
  } else {
    sequence.progress.draw_by_permission(sequence.allowed != nullptr);
  }
}

// The first draw in flight gets the mask; if tokens are free, all draws in flight get one of all tokens.
void EngineCore::hand_mask(Sequence& sequence) {
  if (!sequence.draws_freely())
    return out_->push_back(HandMask{.slot = sequence.mask_slots.front(), .mask = sequence.allowed});
  const auto all = std::make_shared<const TokenMask>(mask_words(limits_->vocabulary_size), ~std::uint32_t{0});
  for (const auto& slot : sequence.mask_slots)
    if (slot) out_->push_back(HandMask{.slot = slot, .mask = all});
}

bool EngineCore::may_draw_ahead(const Sequence& sequence) const {
  return sequence.phase == Sequence::Phase::kRunning && workers_[sequence.worker].device.waits_for_masks &&
         !sequence.is_guide_slow;
}

// The core waits for its mask; else its device does, or it misses batches meanwhile.
bool EngineCore::is_waited_for_here(const Sequence& sequence) const {
  return sequence.phase == Sequence::Phase::kRunning && !workers_[sequence.worker].device.waits_for_masks;
}

void EngineCore::note_mask_wait(Sequence& sequence, std::chrono::nanoseconds wait) {
  const auto late = std::max(wait - kQuickMask, -kQuickMask / 10);
  sequence.guide_debt = std::max(std::chrono::nanoseconds(0), sequence.guide_debt + late);
  sequence.is_guide_slow = sequence.is_guide_slow || sequence.guide_debt > kMostGuideDebt;
}

// Devices need not wait for masks that nothing is drawn with any more.
void EngineCore::close_masks(Sequence& sequence) {
  for (auto& slot : std::exchange(sequence.mask_slots, {}))
    if (slot) out_->push_back(HandMask{.slot = std::move(slot), .mask = {}});
}

void EngineCore::enqueue(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  sequence.phase = Sequence::Phase::kWaiting;
  sequence.queued = now_;
  sequence.asked = {};
  sequence.has_fetched = false;
  sequence.fetched_tokens = 0;
  sequence.load_began = sequence.loaded = {};
  waiting_.emplace(sequence.arrival, index);
  if (sequence.is_later_step()) num_steps_waiting_ += 1;
  flows_.wait(sequence.flow, sequence.arrival, work_of(sequence));
}

void EngineCore::leave_queue(const Sequence& sequence) {
  if (waiting_.erase(sequence.arrival) == 0) return;
  if (sequence.is_later_step()) num_steps_waiting_ -= 1;
  flows_.withdraw(sequence.flow, sequence.arrival);
}

void EngineCore::start(SequenceIndex index, WorkerId worker_id, PageMap::Reservation reservation) {
  Sequence& sequence = sequences_[index];
  Worker& worker = workers_[worker_id];
  waiting_.erase(sequence.arrival);
  if (sequence.is_later_step()) num_steps_waiting_ -= 1;
  flows_.start(sequence.flow, sequence.arrival);
  const auto place = std::upper_bound(
      worker.running.begin(), worker.running.end(), sequence.arrival,
      [this](std::uint64_t arrival, SequenceIndex other) { return arrival < sequences_[other].arrival; });
  worker.running.insert(place, index);
  sequence.phase = Sequence::Phase::kRunning;
  sequence.run = ++last_run_;
  sequence.worker = worker_id;
  sequence.slot = worker.free_slots.back();
  worker.free_slots.pop_back();
  sequence.lease = reservation.lease;
  sequence.pages = std::move(reservation.pages);
  forget_part_of_source(sequence, reservation);
  sequence.last_batch = last_batch_;
  std::uint32_t in_holes = 0;
  for (const TokenRange& hole : reservation.holes) in_holes += hole.size();
  const std::uint32_t found = reservation.known_tokens - in_holes;
  const std::uint32_t num_looked_up = sequence.progress.num_reusable();
  sequence.num_known_at_start = sequence.progress.num_known();
  sequence.num_found_at_start = reservation.known_tokens;
  // The prompt is charged at once and in full: of two requests that get their turns one
  // after the other the second is chosen knowing of the first. Tokens that are computed
  // again later are the server's affair.
  if (!sequence.has_started)
    flows_.charge(sequence.flow, FairQueue::kPromptTokenCost * (sequence.num_known_at_start - found));
  sequence.progress.start(reservation.known_tokens, std::move(reservation.holes));
  if (sequence.allowed) allow_draw(sequence);
  const std::uint32_t from_disk = std::min(sequence.fetched_tokens, reservation.tokens_from_host);
  const KvSources sources{.device = reservation.tokens_from_device,
                          .host = reservation.tokens_from_host - from_disk,
                          .disk = from_disk,
                          .recomputed = std::max(sequence.num_given_up, reservation.known_tokens) - found};
  SequenceStarted output{.queued = sequence.queued,
                         .asked = sequence.asked,
                         .load_began = sequence.load_began,
                         .loaded = sequence.loaded,
                         .started = now_,
                         .num_known = sequence.num_known_at_start,
                         .cached_tokens = found,
                         .looked_up_tokens = sequence.is_later_step() ? 0 : num_looked_up,
                         .sources = sources,
                         .worker = worker_id,
                         .epoch = worker.health.epoch};
  const bool is_first_start = !std::exchange(sequence.has_started, true);
  if (!sequence.has_progressed) sequence.brought_back += time_to_bring_back(sources, worker);
  if (is_first_start) {
    sequence.started = now_;
    sequence.cached_tokens = std::min(found, sequence.num_prompt);
    if (!sequence.is_later_step()) output.queue_time = now_ - sequence.arrived;
  }
  emit(sequence.id, output);
  if (is_first_start && !sequence.ticket->is_search_step) report_drawn(sequence);
}

// A source of which a part was found is read anew as a whole, and what is behind it with it: pages
// that others have as well get the same bits again.
void EngineCore::forget_part_of_source(const Sequence& sequence, PageMap::Reservation& reservation) {
  const std::uint32_t num_source = sequence.progress.num_source();
  const bool has_hole = !reservation.holes.empty() && reservation.holes.front().begin < num_source;
  if (reservation.known_tokens >= num_source && !has_hole) return;
  reservation.known_tokens = reservation.tokens_from_device = reservation.tokens_from_host = 0;
  reservation.holes.clear();
}

void EngineCore::preempt(SequenceIndex index) {
  sequences_[index].has_progressed = false;
  interrupt(index, StopReason::kPreempted);
}

// The sequence loses its device pages and is queued again, or is suspended until its
// client reads on.
void EngineCore::interrupt(SequenceIndex index, StopReason reason) {
  give_up_device(index);
  Sequence& sequence = sequences_[index];
  emit(sequence.id, SequenceStopped{.reason = reason, .time = now_, .is_paused = sequence.is_paused});
  if (sequence.is_paused) {
    sequence.phase = Sequence::Phase::kPaused;
  } else {
    enqueue(index);
  }
}

// Batches in flight keep the pages until they are done. The slot may be given
// away at once: a device works in order, so what is still in flight writes to
// it before the next owner does.
void EngineCore::give_up_device(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  Worker& worker = workers_[sequence.worker];
  worker.running.erase(std::find(worker.running.begin(), worker.running.end(), index));
  flows_.stop(sequence.flow);
  worker.free_slots.push_back(sequence.slot);
  if (sequence.progress.num_in_flight() == 0) {
    worker.is_admission_blocked = worker.is_extension_blocked = false;
    pages_.release(sequence.lease, now_);
  } else {
    departed_.emplace(sequence.lease, Departed{.worker = sequence.worker,
                                               .num_in_flight = sequence.progress.num_in_flight()});
  }
  sequence.lease = 0;
  sequence.pages.clear();
  sequence.num_given_up = sequence.progress.num_computed();
  sequence.progress.restart();
  if (sequence.is_guided) {
    close_masks(sequence);
    sequence.progress.draw_by_permission(sequence.allowed != nullptr);
  }
  sequence.run = ++last_run_;
}

void EngineCore::release(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  if (sequence.phase == Sequence::Phase::kRunning) give_up_device(index);
  leave_queue(sequence);
  learn_length(sequence);
  flows_.end(sequence.flow, sequence.arrival, std::min(sequence.progress.num_known(), sequence.num_given_up));
  flows_.leave(sequence.flow);
  suspects_.forget(sequence.id);
  index_of_.erase(sequence.id);
  if (index_of_.empty()) is_idle_too_long_ = false;
  sequence = {};
  sequence.run = ++last_run_;
  free_indexes_.push_back(index);
}

void EngineCore::take(const WorkerReady& event) {
  if (!workers_.expect(event)) return;
  Worker& worker = workers_[event.worker];
  take(WorkerLost{.worker = event.worker, .epoch = worker.health.epoch});
  worker.health.come_up(event);
  is_given_up_ = false;
  worker.device = event.description;
  const DeviceDescription& device = worker.device;
  limits_ = limits_of(device);
  worker.limits = {.max_tokens = std::min(options_.serving.max_batch_tokens, device.max_batch_tokens),
                   .max_sequences = std::min(options_.serving.max_batch_sequences, device.num_slots),
                   .prefill_chunk = 0,
                   .max_penalized_tokens = device.max_penalized_tokens,
                   .separates_prefill = options_.serving.separates_prefill};
  if (options_.source) max_source_ = std::min(options_.source->max_source, worker.limits.max_tokens);
  worker.limits.prefill_chunk = std::min(options_.serving.prefill_chunk, worker.limits.max_tokens);
  worker.free_slots.clear();
  for (SlotId slot = worker.limits.max_running(); slot > 0; --slot) worker.free_slots.push_back(slot - 1);
  worker.is_admission_blocked = worker.is_extension_blocked = false;
  pages_.add_worker(event.worker, device, now_);
  std::vector<SequenceIndex> unchecked;
  for (const auto& [arrival, index] : waiting_)
    if (!sequences_[index].is_checked) unchecked.push_back(index);
  for (const SequenceIndex index : unchecked) check(index);
  advance();
}

// Every running sequence waits for its next turn with the tokens it has, but for
// one that is known to have done it.
void EngineCore::take(const WorkerLost& event) {
  const auto in_flight = workers_.take_lost(event, now_);
  if (!in_flight) return;
  Worker& worker = workers_[event.worker];
  for (const Flight& flight : *in_flight) report_iteration(event.worker, worker, flight, nullptr);
  const auto culprit = blame(event, *in_flight);
  const auto running = worker.running;
  for (const SequenceIndex index : running) interrupt(index, StopReason::kWorkerLost);
  std::erase_if(departed_, [&](const auto& departed) {
    if (departed.second.worker != event.worker) return false;
    pages_.release(departed.first, now_);
    return true;
  });
  pages_.lose_worker(event.worker);
  forget_pages();
  for (const auto& [arrival, index] : waiting_)
    if (sequences_[index].phase == Sequence::Phase::kFetching) {
      sequences_[index].has_fetched = false;
      sequences_[index].phase = Sequence::Phase::kWaiting;
      sequences_[index].run = ++last_run_;
    }
  if (culprit)
    fail(*culprit, SequenceFailure::kKillsWorkers,
         "The server's worker failed repeatedly on this request, so it was given up.");
  advance();
}

// nullopt: it is not known yet which request did it, or that one has left.
std::optional<EngineCore::SequenceIndex> EngineCore::blame(const WorkerLost& event,
                                                           const std::vector<Flight>& in_flight) {
  std::vector<Suspects::Part> parts;
  for (const Flight& flight : in_flight) {
    if (event.batch_id != 0 && flight.batch_id != event.batch_id) continue;
    for (const FlightEntry& entry : flight.entries)
      parts.push_back({.sequence = entry.id,
                       .begin = entry.step.context_length,
                       .end = entry.step.context_length + entry.step.num_tokens,
                       .has_ended = !index_of_.contains(entry.id)});
  }
  const auto culprit = suspects_.take_death(event.epoch, parts, event.may_be_another);
  return culprit ? index_of(*culprit) : std::nullopt;
}

void EngineCore::take(const TransfersDone& event) {
  DiskDamage damage;
  for (const FinishedTransfer& transfer : event.transfers)
    if (transfer.outcome != TransferOutcome::kDone) damage.transfers.push_back(transfer);
  if (!damage.transfers.empty()) out_->push_back(std::move(damage));
  for (const auto& fetched : pages_.transfers_done(event.transfers, now_)) {
    const auto index = index_of(fetched.sequence);
    if (!index) continue;
    Sequence& sequence = sequences_[*index];
    if (sequence.run != fetched.run || sequence.phase != Sequence::Phase::kFetching) continue;
    sequence.phase = Sequence::Phase::kWaiting;
    sequence.fetched_tokens = fetched.num_tokens;
    sequence.loaded = now_;
  }
  pages_.move_on(now_);
  advance();
}

void EngineCore::transfer_pages() {
  if (auto transfers = pages_.take_transfers(); !transfers.empty())
    out_->push_back(TransferPages{.transfers = std::move(transfers)});
}

void EngineCore::take(const DiskShort& event) {
  pages_.give_up_disk_pages(event.num_pages, now_);
  transfer_pages();
  out_->push_back(DiskGaveWay{});
}

void EngineCore::take(const DiskMayGrow&) { pages_.disk_may_grow(); }

void EngineCore::take(const ForgetPages& event) {
  forgets_.push_back({.pages = event, .last_lease = departed_.empty() ? 0 : departed_.rbegin()->first});
  forget_pages();
}

// A sequence that has just ended may have a step in flight, and holds its pages until then.
void EngineCore::forget_pages() {
  std::erase_if(forgets_, [this](const Forgetting& forgetting) {
    if (!departed_.empty() && departed_.begin()->first <= forgetting.last_lease) return false;
    const ForgetPages& pages = forgetting.pages;
    pages_.forget({.tokens = *pages.tokens, .cache_salt = pages.cache_salt}, pages.num_kept);
    return true;
  });
}

void EngineCore::take(const FlushPages& event) {
  flushes_.push_back(event.number);
  pages_.move_on(now_);
  advance();
}

// Sequences that wait for their clients keep nothing on the device.
void EngineCore::flush_if_idle() {
  if (flushes_.empty() || num_running() > 0 || num_in_flight() > 0 || !pages_.is_settled()) return;
  for (const std::uint64_t number : std::exchange(flushes_, {})) out_->push_back(Flushed{.number = number});
}

void EngineCore::take(const SchedulerTick&) {
  expire_waiting();
  look_after_devices();
  look_after_queue();
  unblock();
  advance();
}

void EngineCore::unblock() {
  for (Worker& worker : workers_) worker.is_admission_blocked = worker.is_extension_blocked = false;
}

// Deadlines run from arrival and end when a request has run once.
void EngineCore::expire_waiting() {
  std::vector<SequenceIndex> expired;
  for (const auto& [arrival, index] : waiting_)
    if (sequences_[index].is_new() && now_ - sequences_[index].arrived > options_.serving.max_queue_time)
      expired.push_back(index);
  for (const SequenceIndex index : expired)
    fail(index, SequenceFailure::kQueueTimeout,
         "The request waited longer than " + std::to_string(options_.serving.max_queue_time.count()) +
             " ms for its turn; try again later.");
}

void EngineCore::look_after_devices() {
  for (WorkerStalled& stalled : workers_.look(now_)) {
    is_given_up_ = is_given_up_ || stalled.is_hopeless;
    out_->push_back(std::move(stalled));
  }
}

// A sequence that waits for the disk, or for a client, is no work for a device.
void EngineCore::look_after_queue() {
  const auto is_work = [this](SequenceIndex index) {
    return sequences_[index].phase != Sequence::Phase::kFetching && !sequences_[index].is_paused;
  };
  bool has_work = false;
  for (const auto& [arrival, index] : waiting_) has_work = has_work || is_work(index);
  for (const Worker& worker : workers_)
    for (const SequenceIndex index : worker.running) has_work = has_work || is_work(index);
  if (!has_work || !workers_.is_any_up() || num_in_flight() > 0) {
    idle_since_.reset();
    is_idle_too_long_ = false;
    return;
  }
  if (!idle_since_) idle_since_ = now_;
  const auto idle = idle_time_.look(now_, *idle_since_);
  is_idle_too_long_ = idle > kLongestIdle;
  if (idle > kHopelesslyIdle) give_up(0, "requests wait and the device gets no batch");
}

void EngineCore::give_up(WorkerId id, std::string reason) {
  is_given_up_ = true;
  out_->push_back(WorkerStalled{
      .worker = id, .epoch = workers_[id].health.epoch, .is_hopeless = true, .reason = std::move(reason)});
}

std::size_t EngineCore::num_running() const {
  std::size_t count = 0;
  for (const Worker& worker : workers_) count += worker.running.size();
  return count;
}

std::size_t EngineCore::num_running(WorkerId worker) const {
  return worker < workers_.size() ? workers_[worker].running.size() : 0;
}

std::size_t EngineCore::num_fetching() const {
  return static_cast<std::size_t>(std::count_if(waiting_.begin(), waiting_.end(), [this](const auto& entry) {
    return sequences_[entry.second].phase == Sequence::Phase::kFetching;
  }));
}

std::vector<const Sequence*> EngineCore::running() const {
  std::vector<const Sequence*> all;
  for (const Worker& worker : workers_)
    for (const SequenceIndex index : worker.running) all.push_back(&sequences_[index]);
  std::sort(all.begin(), all.end(),
            [](const Sequence* a, const Sequence* b) { return a->arrival < b->arrival; });
  return all;
}

const Sequence* EngineCore::find(SequenceId id) const {
  const auto index = index_of(id);
  return index ? &sequences_[*index] : nullptr;
}

std::optional<EngineCore::SequenceIndex> EngineCore::index_of(SequenceId id) const {
  const auto found = index_of_.find(id);
  return found == index_of_.end() ? std::nullopt : std::optional(found->second);
}

Sequence* EngineCore::find_run(SequenceIndex index, std::uint64_t run) {
  return sequences_[index].run == run ? &sequences_[index] : nullptr;
}

void EngineCore::emit(SequenceId id, SequenceOutput output) {
  out_->emplace_back(std::in_place_type<Emit>, Emit{.sequence = id, .output = std::move(output)});
}

// To be filled in its place, until the next command is appended: one comes for every token.
NewToken& EngineCore::emit_token(SequenceId id) {
  auto& command = std::get<Emit>(out_->emplace_back(std::in_place_type<Emit>));
  command.sequence = id;
  NewToken& token = command.output.emplace<NewToken>();
  token.sequence = id;
  return token;
}

PageSizing EngineCore::page_sizing(const Worker& worker) const {
  return {.page_size = worker.device.page_size,
          .look_ahead_pages = options_.serving.look_ahead_pages,
          .kept_free = static_cast<std::uint32_t>(options_.serving.keep_free * worker.device.num_pages)};
}

}  // namespace troupe
