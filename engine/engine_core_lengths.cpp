// SPDX-License-Identifier: Apache-2.0
// The part of the core about the lengths of answers that are not there yet: how much
// memory is set aside for them, and which of those that take more give way.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/engine_core.hpp"
#include "policy/costs/rounded_time.hpp"

namespace troupe {
namespace {

// By history, one running sequence's length is any of the known ones: so many guesses
// at all of them, each of which must fit (Past-Future scheduling draws five).
constexpr std::uint32_t kNumScenarios = 3;
constexpr std::uint64_t kAnswersToForeseeAgain = 16;
constexpr std::uint64_t kFirstAnswers = 16;  // with each, those that run are told of

}  // namespace

void EngineCore::foresee(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  const AdmissionTicket& ticket = *sequence.ticket;
  sequence.length.max_tokens = sequence.progress.max_total() - sequence.num_prompt;
  if (ticket.answer_tokens) sequence.length.ends_at = std::max(1U, *ticket.answer_tokens);
  sequence.length.foretold = ticket.foretold_tokens.value_or(ticket.answer_tokens.value_or(0));
  flows_.set_work(sequence.flow, sequence.arrival, work_of(sequence));
  sequence.heed_length();
  if (!options_.serving.foresees_lengths() || !sequence.tells_length()) return;
  sequence.length.is_awaited = true;
  out_->push_back(ForecastLength{.questions = {question_of(sequence)}});
}

ForecastLength::Question EngineCore::question_of(const Sequence& sequence) {
  return {.sequence = sequence.id, .max_tokens = sequence.length.max_tokens, .ticket = sequence.ticket};
}

void EngineCore::take(const LengthForecast& event) {
  if (!options_.serving.foresees_lengths()) return;
  bool has_changed = false;
  for (const LengthForecast::Answer& answer : event.answers)
    if (const auto index = index_of(answer.sequence)) has_changed |= take(sequences_[*index], answer);
  if (!has_changed) return;
  for (Worker& worker : workers_) worker.is_admission_blocked = false;
  advance();
}

// Once it runs, its reservation is the first one, doubled where that was too little, until its state says
// more. False: nothing has changed.
bool EngineCore::take(Sequence& sequence, const LengthForecast::Answer& answer) {
  if (answer.is_refined) return refine(sequence, answer);
  ForeseenLength& length = sequence.length;
  const std::uint32_t standing = least_expected(sequence);
  const bool is_first = std::exchange(length.is_awaited, false);
  if (!is_first && sequence.has_started) return false;
  length.likely = answer.likely_tokens;
  const bool is_reserved = options_.serving.reservation == ReservationPolicy::kPredicted;
  if (is_reserved) reserve_foretold(sequence, answer.reserved_tokens, standing);
  flows_.set_work(sequence.flow, sequence.arrival, work_of(sequence));
  if (!is_first) return true;
  emit(sequence.id, ReservationChanged{.cause = ReservationChanged::Cause::kForecast,
                                       .num_tokens = is_reserved ? length.reserved : length.likely,
                                       .time = now_});
  return true;
}

// standing: what was counted on before. Where history had stood in, with less, the sequence may run beside
// others that leave no room for more. Then the old end is the reservation, which is reported, and what it
// wants is asked for when it joins anew.
void EngineCore::reserve_foretold(Sequence& sequence, std::uint32_t num_tokens, std::uint32_t standing) {
  sequence.reserve(std::max(num_tokens, sequence.num_generated() + 1), pages_.page_size());
  const bool runs = sequence.phase == Sequence::Phase::kRunning;
  if (!runs || sequence.length.reserved <= standing || all_fit(workers_[sequence.worker])) return;
  sequence.length.refused = sequence.length.reserved;
  sequence.reserve(standing, pages_.page_size());
}

// The step draws the answer's first token, or the one that follows on each kTokensBetweenLooks.
bool EngineCore::wants_state(const Sequence& sequence, const SequenceStep& step, const Worker& worker) const {
  if (!worker.device.hands_out_states || !step.sample || step.scores || !sequence.tells_length())
    return false;
  const std::uint32_t num_drawn = sequence.num_generated() + sequence.progress.num_pending();
  if (num_drawn == 0) return options_.serving.foresees_lengths();
  return num_drawn % kTokensBetweenLooks == 0 &&
         options_.serving.reservation == ReservationPolicy::kPredicted;
}

// Nothing waits for what comes of it. place: of the batch's command among all; none yet: one is made.
void EngineCore::ask_with_state(const Sequence& sequence, std::span<const float> state,
                                std::optional<std::size_t>& place) {
  auto question = question_of(sequence);
  question.state = std::make_shared<const std::vector<float>>(state.begin(), state.end());
  question.num_generated = sequence.num_generated() - 1;  // without the token that is drawn of it
  if (!place) {
    place = out_->size();
    out_->push_back(ForecastLength{.page_size = pages_.page_size(), .questions = {}});
  }
  std::get<ForecastLength>((*out_)[*place]).questions.push_back(std::move(question));
}

// Growth that does not fit is not reserved: its end would be reported too late for it to give way in time.
// When it has, that is what it asks for.
bool EngineCore::refine(Sequence& sequence, const LengthForecast::Answer& answer) {
  if (options_.serving.reservation != ReservationPolicy::kPredicted) return false;
  const std::uint32_t reserved = refined_reservation(sequence, answer);
  sequence.length.refused = 0;
  if (reserved == sequence.length.reserved) return false;
  const ForeseenLength before = sequence.length;
  sequence.reserve(reserved, pages_.page_size());
  const bool grows = reserved > before.reserved;
  const bool runs = sequence.phase == Sequence::Phase::kRunning;  // else room is asked for when it joins
  if (grows && runs && !all_fit(workers_[sequence.worker])) {
    sequence.length = before;
    sequence.length.refused = reserved;
    sequence.heed_length();
    return false;
  }
  flows_.set_work(sequence.flow, sequence.arrival, work_of(sequence));
  emit(sequence.id, ReservationChanged{.cause = grows ? ReservationChanged::Cause::kRefined
                                                      : ReservationChanged::Cause::kShrunk,
                                       .num_tokens = reserved,
                                       .time = now_});
  return true;
}

// At the end of its prefill memory that is set aside only grows: others have joined beside it, and the order
// is past. A running answer's shrinks, too, for those that wait.
std::uint32_t EngineCore::refined_reservation(const Sequence& sequence,
                                              const LengthForecast::Answer& answer) const {
  const std::uint32_t standing = sequence.length.reserved, num_generated = sequence.num_generated();
  const std::uint32_t wanted = std::min(answer.reserved_tokens, sequence.length.max_tokens);
  if (answer.num_generated == 0) return wanted > num_generated ? std::max(standing, wanted) : standing;
  const std::uint32_t page_size = pages_.page_size();
  return reservation_after_look({.standing = standing,
                                 .wanted = wanted,
                                 .least = num_generated + page_size + 2 * kTokensBetweenLooks,
                                 .max_tokens = sequence.length.max_tokens,
                                 .page_size = page_size});
}

// Of those that wait, as more answers have ended since.
void EngineCore::foresee_again() {
  ForecastLength command;
  for (const auto& [arrival, index] : waiting_) {
    const Sequence& sequence = sequences_[index];
    if (sequence.length.max_tokens > 0 && !sequence.has_started && sequence.tells_length())
      command.questions.push_back(question_of(sequence));
  }
  if (!command.questions.empty()) out_->push_back(std::move(command));
}

// Questions are asked before it is known which sequences join. first_command: of this event.
void EngineCore::note_waiting(std::size_t first_command) {
  if (!options_.serving.foresees_lengths()) return;
  for (std::size_t i = first_command; i < out_->size(); ++i) {
    auto* command = std::get_if<ForecastLength>(&(*out_)[i]);
    if (command == nullptr) continue;
    for (ForecastLength::Question& question : command->questions) {
      const auto index = index_of(question.sequence);
      question.waits = index && !sequences_[*index].has_started;
    }
  }
}

// Tokens, as the order of waiting sequences counts them. An answer that has begun is as long as was set aside
// for it; where it has come further than anything foretold, as long again, as an overrun's reservation is.
std::uint64_t EngineCore::work_of(const Sequence& sequence) const {
  if (!sequence.is_checked) return sequence.num_prompt;  // how long its answer may be is not known yet
  const ForeseenLength& length = sequence.length;
  const std::uint32_t num_generated = sequence.num_generated();
  std::uint32_t answer = length.likely > 0 ? length.likely : length.max_tokens;
  if (num_generated > 0 && length.reserved > 0) answer = length.reserved;
  if (num_generated >= answer)
    answer = doubled_reservation({.reserved = num_generated, .max_tokens = length.max_tokens});
  return std::uint64_t{sequence.num_prompt} + answer;
}

bool EngineCore::is_forecast_awaited(const Sequence& sequence) const {
  return sequence.length.is_awaited && now_ - sequence.arrived < kLongestForecastWait;
}

// Tokens that the sequence's answer is believed to have in the end, more than it has.
std::uint32_t EngineCore::expected_answer(const Sequence& sequence, std::uint32_t scenario) const {
  const ForeseenLength& length = sequence.length;
  const std::uint32_t num_generated = sequence.num_generated();
  switch (options_.serving.reservation) {
    case ReservationPolicy::kOracle:
      // Foretold wrongly it has more already, and ends who knows when.
      if (length.foretold >= num_generated + 1) return std::min(length.foretold, length.max_tokens);
      break;
    case ReservationPolicy::kPredicted:
      if (length.reserved > 0) return std::clamp(num_generated + 1, length.reserved, length.max_tokens);
      if (is_forecast_awaited(sequence)) break;
      [[fallthrough]];
    case ReservationPolicy::kHistory:
      return history_.length_at(spread_rank(sequence.arrival, scenario), num_generated, length.max_tokens);
    case ReservationPolicy::kMax:
    case ReservationPolicy::kOnDemand: break;
  }
  return length.max_tokens;
}

std::uint32_t EngineCore::least_expected(const Sequence& sequence) const {
  std::uint32_t least = sequence.length.max_tokens;
  for (std::uint32_t scenario = 0; scenario < kNumScenarios; ++scenario)
    least = std::min(least, expected_answer(sequence, scenario));
  return least;
}

// The step that shows an answer's end was submitted with the steps behind it.
Commitment EngineCore::commitment_of(const Sequence& sequence, const Worker& worker,
                                     std::uint32_t scenario) const {
  const SequenceProgress& progress = sequence.progress;
  const std::uint32_t behind = options_.serving.max_in_flight - 1;
  const std::uint32_t total =
      std::min(sequence.num_prompt + expected_answer(sequence, scenario) + behind, progress.max_total());
  const std::uint32_t num_total = page_sizing(worker).pages_for(total - 1);
  const auto num_held = static_cast<std::uint32_t>(sequence.pages.size());
  const std::uint32_t num_joining = page_sizing(worker).pages_for(progress.capacity_needed(1));
  const std::uint32_t num_now = std::max(num_held, num_joining);
  return {.num_held = num_now, .num_more = std::max(num_total, num_now) - num_now};
}

EngineCore::Room EngineCore::room_of(const Worker& worker) const {
  const ReservationPolicy policy = options_.serving.reservation;
  if (policy == ReservationPolicy::kOnDemand || worker.running.empty()) return {};
  const bool may_err = policy == ReservationPolicy::kHistory || policy == ReservationPolicy::kPredicted;
  Room room{.num_pages = worker.device.num_pages - (may_err ? page_sizing(worker).kept_free : 0),
            .scenarios = {}};
  for (std::uint32_t scenario = 0; scenario < (may_err ? kNumScenarios : 1); ++scenario)
    room.scenarios.emplace_back(commitments_of(worker, scenario));
  return room;
}

// Of a page that several hold, it is the one that ends last that counts it: with the others
// it does not go.
std::vector<Commitment> EngineCore::commitments_of(const Worker& worker, std::uint32_t scenario) const {
  std::vector<std::pair<Commitment, SequenceIndex>> running;
  running.reserve(worker.running.size());
  for (const SequenceIndex index : worker.running)
    running.emplace_back(commitment_of(sequences_[index], worker, scenario), index);
  std::stable_sort(running.begin(), running.end(),
                   [](const auto& a, const auto& b) { return a.first.num_more > b.first.num_more; });
  std::vector<bool> is_counted(options_.serving.keeps_prefixes() ? worker.device.num_pages : 0);
  std::vector<Commitment> commitments;
  commitments.reserve(running.size());
  for (const auto& [commitment, index] : running) {
    commitments.push_back(commitment);
    if (is_counted.empty()) continue;  // none is shared
    for (const PageId page : sequences_[index].pages) {
      commitments.back().num_held -= is_counted[page] ? 1 : 0;
      is_counted[page] = true;
    }
  }
  return commitments;
}

// Will there be pages for the newcomer and all that run?
bool EngineCore::has_room(const Room& room, const Worker& worker, const Sequence& newcomer) const {
  std::uint32_t scenario = 0;
  return std::all_of(room.scenarios.begin(), room.scenarios.end(), [&](const Commitments& running) {
    return running.peak_with(commitment_of(newcomer, worker, scenario++)) <= room.num_pages;
  });
}

// So, too, for all that run; one alone may have all.
bool EngineCore::all_fit(const Worker& worker) const {
  if (worker.running.size() == 1) return true;
  const Room room = room_of(worker);
  return std::all_of(room.scenarios.begin(), room.scenarios.end(),
                     [&](const Commitments& running) { return running.peak() <= room.num_pages; });
}

// No pages ahead of need: until then they are others', and admission counts on that.
void EngineCore::limit_look_ahead(PageDemand& demand) const {
  if (options_.serving.reservation == ReservationPolicy::kOnDemand) return;
  demand.wanted = demand.required;
  demand.keep_free = 0;
}

// The sequence nears the end of its reservation, which is doubled.
void EngineCore::settle_overrun(SequenceIndex index) {
  Sequence& sequence = sequences_[index];
  if (sequence.phase != Sequence::Phase::kRunning) return;
  ForeseenLength& length = sequence.length;
  const Overrun overrun{.reserved = std::max(length.reserved, sequence.num_generated()),
                        .max_tokens = length.max_tokens,
                        .has_given_way = length.has_given_way};
  sequence.reserve(doubled_reservation(overrun), pages_.page_size());
  const auto answer = answer_overrun(overrun, all_fit(workers_[sequence.worker]));
  const bool gives_way = answer == OverrunAnswer::kGiveWay;
  if (gives_way) sequence.reserve(std::max(length.reserved, length.refused), pages_.page_size());
  flows_.set_work(sequence.flow, sequence.arrival, work_of(sequence));
  emit(sequence.id, ReservationChanged{.cause = gives_way ? ReservationChanged::Cause::kGaveWay
                                                          : ReservationChanged::Cause::kGrown,
                                       .num_tokens = length.reserved,
                                       .time = now_});
  if (!gives_way) return;
  length.has_given_way = true;
  preempt(index);
}

void EngineCore::learn_length(const Sequence& sequence) {
  if (sequence.length.max_tokens == 0 || !sequence.tells_length())
    return;  // it was refused, or has no answer
  const ReservationPolicy policy = options_.serving.reservation;
  const bool asks_history = policy == ReservationPolicy::kHistory || policy == ReservationPolicy::kPredicted;
  if (asks_history && sequence.num_generated() > 0) history_.add(sequence.num_generated());
  if (!options_.serving.foresees_lengths()) return;
  num_learnt_ += 1;
  LearnLength command{.sequence = sequence.id,
                      .num_tokens = sequence.num_generated(),
                      .is_whole = sequence.length.is_whole,
                      .costs = costs_of(sequence)};
  const bool is_time = num_learnt_ % kAnswersToForeseeAgain == 0;
  if (is_time || num_learnt_ <= kFirstAnswers) command.running = running_but(sequence.id);
  out_->push_back(std::move(command));
  if (is_time) foresee_again();
}

// A token of memory that others wait for costs the share of the device's time that it is of all memory. Where
// all slots are taken, they wait for slots.
ReservationCosts EngineCore::costs_of(const Sequence& sequence) const {
  if (waiting_.empty() || sequence.batches.num_batches == 0) return {};
  const Worker& worker = workers_[sequence.worker];
  if (worker.lacks_slots) return {};
  const double num_tokens = static_cast<double>(worker.device.num_pages) * pages_.page_size();
  return {.unused_token = static_cast<double>(sequence.batches.time.count()) / num_tokens,
          .brought_back = static_cast<double>(sequence.brought_back.count())};
}

// The device's time to bring back what a preempted sequence had: its pages over the link or from the disk,
// and what is nowhere anew.
std::chrono::nanoseconds EngineCore::time_to_bring_back(const KvSources& sources,
                                                        const Worker& worker) const {
  const auto load = [this](const LoadCost& cost, std::uint32_t num_tokens) {
    const auto num_pages = num_tokens / pages_.page_size();
    return num_pages > 0 ? cost.fixed + cost.per_page * num_pages : 0.0;
  };
  const auto found = sources.device + sources.host + sources.disk;
  const double loads =
      load(options_.pages.load_from_host, sources.host) + load(options_.pages.load_from_disk, sources.disk);
  return rounded_time(loads) + worker.pace.prompt_time(sources.recomputed, found);
}

std::vector<LearnLength::Running> EngineCore::running_but(SequenceId ended) const {
  std::vector<LearnLength::Running> running;
  for (const Worker& worker : workers_)
    for (const SequenceIndex index : worker.running) {
      const Sequence& sequence = sequences_[index];
      if (sequence.id != ended && sequence.num_generated() > 0)
        running.push_back({.sequence = sequence.id, .num_tokens = sequence.num_generated()});
    }
  return running;
}

}  // namespace troupe
