// SPDX-License-Identifier: Apache-2.0
// The part of the core about turns: a place in the queue, the next sequence to
// admit and its worker, and the sequences that give up theirs for it.
#include <algorithm>
#include <utility>

#include "engine/engine_core.hpp"
#include "policy/admitting/preemption.hpp"
#include "policy/placing/placing.hpp"

namespace troupe {

// Later steps of searches keep nobody out: the engine bounds how many are open.
bool EngineCore::is_queue_full() const {
  return waiting_.size() - num_steps_waiting_ >= options_.serving.max_waiting;
}

// False: the queue is full, and stays as it is. A request that has run once, or of which another part had its
// turn, is never refused or displaced, so the one that is has drawn nothing.
bool EngineCore::find_place(const AdmissionTicket& ticket) {
  if (ticket.has_begun || !is_queue_full()) return true;
  const auto displaced = flows_.choose_displaced(
      ticket.flow, [this](std::uint64_t arrival) { return sequences_[waiting_.at(arrival)].is_new(); });
  if (!displaced) return false;
  fail(waiting_.at(*displaced), SequenceFailure::kDisplaced,
       "The server's queue is full, and others have fewer requests in it; try again later.");
  return true;
}

// True: a sequence has joined, or lets others pass while it fetches, or its worker
// is out of pages.
bool EngineCore::admit_next() {
  std::vector<WorkerId> open, full;
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    const Worker& worker = workers_[id];
    if (worker.health.is_up && !worker.is_admission_blocked)
      (worker.free_slots.empty() ? full : open).push_back(id);
  }
  if (open.empty() && flows_.num_flows_active() < 2) return false;
  if (suspects_.is_empty()) {
    std::vector<WorkerId>& among = open.empty() ? full : open;
    const auto index = next_in_turn(among);
    if (!index) return false;
    const WorkerId id = place(*index, among);
    // Where it found no pages, none is asked for again; others may have some.
    if (!open.empty()) return join(*index, id);
    const Worker& worker = workers_[id];
    if (num_fetching() < worker.limits.max_running() && begin_fetch(*index, id)) return true;
    return let_yield(worker, *index, {.num_needed = 1, .capacity = worker.limits.max_running()}, false) &&
           join(*index, id);
  }
  for (const WorkerId id : open)
    if (const auto index = next_suspect(workers_[id]); index && join(*index, id)) return true;
  return false;
}

bool EngineCore::may_start(std::uint64_t arrival) const {
  return sequences_[waiting_.at(arrival)].phase != Sequence::Phase::kFetching;
}

// By length, one that fits on any worker goes before one that fits on none (first fit); `among`
// are then those on which it does.
std::optional<EngineCore::SequenceIndex> EngineCore::next_in_turn(std::vector<WorkerId>& among) const {
  if (among.empty()) return std::nullopt;
  const auto is_ready = [this](std::uint64_t arrival) { return may_start(arrival); };
  if (options_.serving.admission_order == AdmissionOrder::kArrival) {
    const auto next = flows_.next(is_ready);
    return next ? std::optional(waiting_.at(*next)) : std::nullopt;
  }
  std::vector<Room> rooms;
  rooms.reserve(among.size());
  for (const WorkerId id : among) rooms.push_back(room_of(workers_[id]));
  std::vector<WorkerId> fitting;
  const auto fits = [&](std::uint64_t arrival) {
    fitting.clear();
    for (std::size_t i = 0; i < among.size(); ++i)
      if (has_room(rooms[i], workers_[among[i]], sequences_[waiting_.at(arrival)]))
        fitting.push_back(among[i]);
    return !fitting.empty();
  };
  const auto next = flows_.next(is_ready, fits);
  if (!next) return std::nullopt;
  if (fits(*next)) among = std::move(fitting);
  return waiting_.at(*next);
}

// One that is tried alone, or may run beside it.
std::optional<EngineCore::SequenceIndex> EngineCore::next_suspect(const Worker& worker) const {
  std::vector<SequenceIndex> candidates;
  std::vector<SequenceId> waiting, running;
  for (const std::uint64_t arrival : flows_.in_turn()) {
    if (!may_start(arrival)) continue;
    candidates.push_back(waiting_.at(arrival));
    waiting.push_back(sequences_[candidates.back()].id);
  }
  for (const SequenceIndex index : worker.running)
    if (!sequences_[index].is_paused) running.push_back(sequences_[index].id);
  const auto chosen = suspects_.next_to_admit(waiting, running);
  return chosen ? std::optional(candidates[*chosen]) : std::nullopt;
}

WorkerId EngineCore::place(SequenceIndex index, const std::vector<WorkerId>& among) const {
  if (among.size() == 1) return among.front();
  const PageAffinity affinity = pages_.affinity(lookup_of(sequences_[index]));
  std::vector<PlacingCandidate> candidates;
  for (const WorkerId id : among) {
    const PageCounts counts = pages_.counts(id);
    candidates.push_back({.known_tokens = affinity.of(id).on_device,
                          .num_running = static_cast<std::uint32_t>(workers_[id].running.size()),
                          .num_free_pages = counts.free + counts.cached});
  }
  return among[*choose_worker(candidates)];
}

// True: it waits for the disk first, and lets others pass. Asked once a wait.
bool EngineCore::begin_fetch(SequenceIndex index, WorkerId worker) {
  Sequence& sequence = sequences_[index];
  if (sequence.has_fetched) return false;
  if (sequence.asked == TimePoint{}) sequence.asked = now_;
  sequence.has_fetched = true;
  if (!pages_.fetch(worker, sequence.id, sequence.run, lookup_of(sequence), now_)) return false;
  sequence.phase = Sequence::Phase::kFetching;
  sequence.load_began = now_;
  return true;
}

bool EngineCore::has_departed(WorkerId worker) const {
  return std::any_of(departed_.begin(), departed_.end(),
                     [worker](const auto& departed) { return departed.second.worker == worker; });
}

bool EngineCore::join(SequenceIndex index, WorkerId worker_id) {
  Sequence& sequence = sequences_[index];
  Worker& worker = workers_[worker_id];
  if (sequence.asked == TimePoint{}) sequence.asked = now_;
  if (begin_fetch(index, worker_id)) return true;
  const PageMap::Lookup lookup = lookup_of(sequence);
  PageDemand demand = admission_demand(sequence.progress, page_sizing(worker),
                                       static_cast<std::uint32_t>(worker.running.size()));
  limit_look_ahead(demand);
  auto reservation = has_room(room_of(worker), worker, sequence)
                         ? pages_.reserve(worker_id, lookup, demand, now_)
                         : std::nullopt;
  if (reservation) {
    start(index, worker_id, std::move(*reservation));
    return true;
  }
  worker.is_admission_blocked = true;
  // Pages come back when what is in flight on them is done: nothing more is given up
  // until then.
  if (!has_departed(worker_id))
    let_yield(worker, index, {.num_needed = demand.required, .capacity = worker.device.num_pages}, true);
  return true;
}

// True if a running sequence gave up its slot and its pages.
bool EngineCore::let_yield(const Worker& worker, SequenceIndex newcomer, Claim claim, bool is_about_pages) {
  if (flows_.num_flows_active() < 2 || !suspects_.is_empty()) return false;
  claim.flow = sequences_[newcomer].flow;
  claim.served = flows_.served(claim.flow);
  claim.num_flows = static_cast<std::uint32_t>(flows_.num_flows_active());
  std::vector<Holding> holdings;
  for (const SequenceIndex index : worker.running) {
    const Sequence& sequence = sequences_[index];
    const auto num_pages = static_cast<std::uint32_t>(sequence.pages.size());
    holdings.push_back({.flow = sequence.flow,
                        .arrival = sequence.arrival,
                        .num_held = is_about_pages ? num_pages : 1,
                        .num_progressed = num_progressed(sequence, worker),
                        .served = flows_.served(sequence.flow)});
  }
  const auto yielding = choose_yielding(holdings, claim);
  if (!yielding) return false;
  preempt(worker.running[*yielding]);
  flows_.promise(sequences_[newcomer].arrival);
  return true;
}

// Tokens since it began to run that it has not to compute again should it stop now,
// or that its client has got. Where it has lost what it had computed before its last stop,
// it may lose this, too, and only the client's count: two that can't both keep their
// prompts would else take turns for ever and never draw.
std::uint32_t EngineCore::num_progressed(const Sequence& sequence, const Worker& worker) const {
  if (sequence.is_paused) return 0;  // it is about to stop anyway
  const std::uint32_t num_drawn = sequence.progress.num_known() - sequence.num_known_at_start;
  const bool has_lost = sequence.num_found_at_start < sequence.num_given_up;
  if (!options_.serving.keeps_prefixes() || has_lost) return num_drawn;
  const std::uint32_t num_computed = sequence.progress.num_computed();
  const std::uint32_t num_kept = num_computed - num_computed % worker.device.page_size;
  return std::max(num_drawn, num_kept - std::min(num_kept, sequence.num_found_at_start));
}

void EngineCore::relieve_shortage(const Worker& worker, SequenceIndex needy) {
  std::vector<PreemptionCandidate> candidates;
  for (const SequenceIndex index : worker.running) {
    const Sequence& sequence = sequences_[index];
    candidates.push_back({.arrival = sequence.arrival,
                          .has_progressed = sequence.has_progressed,
                          .flow = sequence.flow,
                          .num_pages = static_cast<std::uint32_t>(sequence.pages.size())});
  }
  const auto victim = choose_victim(candidates, sequences_[needy].arrival);
  if (victim) preempt(worker.running[*victim]);
}

}  // namespace troupe
