// SPDX-License-Identifier: Apache-2.0
// The scheduler as a deterministic state machine: events in, commands out. No
// threads, clocks, I/O: the live server, the seeded simulation and
// `troupe-loadgen simulate` run this same class. Owns the waiting and the running
// sequences and the map of pages, and decides, whenever something has happened,
// which sequences join, which get pages, and what the next batches are; keeps up
// to max_in_flight batches submitted to each worker, so that its device finds the
// next one when it has finished one.
//
//            pages + slot              token by token
//   waiting ─────────────► running ─────────────────────► ended
//      ▲                    │    │ client does not read
//      │ preempted, or      │    ▼
//      └─ worker lost ◄─────┘  paused ──resume──► waiting
//
// Flows take turns (policy/admitting/fair_queue.hpp). Within a flow waiting sequences are taken
// in order of arrival, so a preempted one comes before all that never ran; a sequence
// whose pages come from the disk lets others pass meanwhile. A newcomer that finds a
// slot and pages is in the very next batch that is formed.
//
// A value: equal events at equal times give equal commands. One caller at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/command.hpp"
#include "engine/core_options.hpp"
#include "engine/event.hpp"
#include "engine/page_map.hpp"
#include "engine/sequence.hpp"
#include "engine/trouble.hpp"
#include "engine/worker_health.hpp"
#include "engine/workers.hpp"
#include "gpu/program/mask_slot.hpp"
#include "policy/admitting/admission.hpp"
#include "policy/admitting/fair_queue.hpp"
#include "policy/admitting/yielding.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/forming/batch_former.hpp"
#include "policy/forming/prefill_pace.hpp"
#include "policy/health/suspects.hpp"
#include "policy/lengths/commitment.hpp"
#include "policy/lengths/length_history.hpp"
#include "policy/pages/page_demand.hpp"

namespace troupe {

class EngineCore {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using SequenceIndex = std::uint32_t;
  using ByArrival = std::map<std::uint64_t, SequenceIndex>;
  // A mask of a guided sequence that takes longer is late; others wait for it, but not for ever, and
  // not for a sequence that was late by so much altogether.
  static constexpr std::chrono::nanoseconds kQuickMask{1'000'000};
  static constexpr std::chrono::nanoseconds kLongestMaskWait = MaskSlot::kLongestWait;
  static constexpr std::chrono::nanoseconds kMostGuideDebt{50'000'000};
  // A forecast that is not there by then counts as none. Until then, a sequence joins
  // others if there is room for all that it may have.
  static constexpr std::chrono::nanoseconds kLongestForecastWait{5'000'000};
  // The tokens of an answer from one look at its state to the next, where its reservation follows it.
  static constexpr std::uint32_t kTokensBetweenLooks = 32;

  explicit EngineCore(CoreOptions options);

  // Appends commands to out. `now` never goes back.
  void on(const Event& event, TimePoint now, Commands& out);

  // Where several models share the workers (engine/model_cores.hpp):
  // Submits one batch to this worker, if there is work for it. True if it did. Streams of
  // other models wait for it: its prompts take no longer than `longest`; 0: however long.
  bool submit_one(WorkerId worker, std::chrono::nanoseconds longest, TimePoint now, Commands& out);
  // A batch of its that is in flight there has tokens of prompts.
  bool has_prompts_in_flight(WorkerId worker) const;
  // The worker's device was busy with another model's batch until now.
  void wait_for_others(WorkerId worker, TimePoint now);
  // An iteration of the sequences that decode there; 0: none does, or not known yet.
  std::chrono::nanoseconds decode_time(WorkerId worker) const;

  // Before this worker's BatchDone, where a caller has so many cores that none stays in the
  // processor's caches: load what the event will touch. In this order and with other work in between,
  // as each reads addresses that the one before has loaded.
  void prefetch_core() const;
  void prefetch_worker(WorkerId worker) const;
  void prefetch_batch(WorkerId worker) const;
  void prefetch_entries(WorkerId worker) const;

  // Some are tried alone for a worker's death (policy/health/suspects.hpp).
  // Paused suspects do not count: their clients do not read, and others need not wait.
  bool has_suspects() const;

  std::size_t num_sequences() const { return index_of_.size(); }
  std::size_t num_waiting() const { return waiting_.size(); }
  std::size_t num_flows_waiting() const { return flows_.num_flows_waiting(); }
  std::size_t num_running() const;
  std::size_t num_in_flight() const { return workers_.num_in_flight(); }  // batches
  std::size_t num_running(WorkerId worker) const;
  std::size_t num_in_flight(WorkerId worker) const { return workers_.num_in_flight(worker); }
  std::size_t num_fetching() const;  // of those waiting
  Trouble trouble() const { return is_idle_too_long_ ? Trouble::kEngineHangs : workers_.trouble(); }
  // The supervisor was told that nothing more will help.
  bool is_given_up() const { return is_given_up_; }
  const PageMap& pages() const { return pages_; }

  const ByArrival& waiting() const { return waiting_; }
  std::vector<const Sequence*> running() const;  // by arrival
  const Sequence& sequence(SequenceIndex index) const { return sequences_[index]; }
  const Sequence* find(SequenceId id) const;

 private:
  friend class Fingerprint;  // of all its state, for the exploration of small worlds
  struct FlightEntry {
    std::uint64_t run = 0;
    SequenceId id = 0;
    LeaseId lease = 0;
    SequenceStep step;
    SequenceIndex sequence = 0;
    std::uint32_t attempt = 0;
    bool wants_state = false;
  };
  struct Flight {
    std::uint64_t batch_id = 0;
    TimePoint submitted;
    IterationShape shape = {};
    std::uint32_t num_decodes = 0;
    std::vector<FlightEntry> entries;
    std::vector<PageCopy> copies;

    std::size_t num_wanted_states() const {
      return static_cast<std::size_t>(
          std::count_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.wants_state; }));
    }
    WorkerHealth::Owed owed() const { return {.submitted = submitted, .num_tokens = shape.num_tokens}; }
  };
  struct Worker {
    WorkerHealth health;
    DeviceDescription device;
    BatchLimits limits;
    std::vector<SequenceIndex> running;  // by arrival
    std::vector<SlotId> free_slots;
    bool lacks_slots = false;           // all were taken when requests last had their turn
    std::vector<Flight> in_flight;      // oldest first, a few: each in the worker's own memory
    bool is_admission_blocked = false;  // no pages for the next; until some come back
    bool is_extension_blocked = false;
    PrefillPace pace;
    bool has_read_sources = false;  // in its last batch
  };
  // Pages that sequences gave up while batches in flight may still write to them.
  struct Departed {
    WorkerId worker = 0;
    std::uint32_t num_in_flight = 0;  // steps
  };
  // Pages to be forgotten when no lease up to this one is among what has departed.
  struct Forgetting {
    ForgetPages pages;
    LeaseId last_lease = 0;
  };
  // A worker's pages, and what its running sequences will need of them; no scenario: all
  // are a newcomer's.
  struct Room {
    std::uint64_t num_pages = 0;
    std::vector<Commitments> scenarios;
  };
  // Rows of a batch's states, taken in the order of its slices; none: its device handed out none.
  struct StatesLeft {
    std::span<const float> numbers;
    std::size_t width = 0;

    std::span<const float> take() {
      const auto state = numbers.first(width);
      numbers = numbers.subspan(width);
      return state;
    }
  };
  // Results of the slices of one step.
  struct SliceResults;
  using Participants = std::pmr::vector<SequenceIndex>;  // in the next batch, by arrival
  // The most tokens the sequence may have, or why it can't be served.
  using Verdict = std::variant<std::uint32_t, Refusal>;

  void take(const Admit& event);
  void take(const StopSequence& event);
  void take(const PauseSequence& event);
  void take(const ResumeSequence& event);
  void take(const AllowTokens& event);
  void take(const LengthForecast& event);
  void take(const TimerFired&) {}  // it sets none
  void take(const WorkerReady& event);
  void take(const BatchDone& event);
  void take(const WorkerLost& event);
  void take(const TransfersDone& event);
  void take(const DiskShort& event);
  void take(const DiskMayGrow& event);
  void take(const ForgetPages& event);
  void take(const FlushPages& event);
  void take(const SchedulerTick& event);

  // engine_core.cpp: what happens to one sequence, or to a worker
  SequenceIndex add(std::shared_ptr<const AdmissionTicket> ticket);
  Verdict check(const AdmissionTicket& ticket) const;
  std::optional<Refusal> refuse_source(const AdmissionTicket& ticket) const;
  std::uint32_t num_source(const AdmissionTicket& ticket) const;
  void add_beginning(std::vector<std::int32_t>& tokens) const;
  static std::string salt_of(const AdmissionTicket& ticket);
  static std::optional<SequenceFailed> refusal_in(const Verdict& verdict);
  std::uint32_t take_drawn(Sequence& sequence, std::uint32_t max_tokens) const;
  void report_drawn(const Sequence& sequence);
  bool check(SequenceIndex index);
  void fail(SequenceIndex index, SequenceFailure failure, std::string message,
            std::optional<std::string> field = std::nullopt);
  void enqueue(SequenceIndex index);
  void leave_queue(const Sequence& sequence);
  void start(SequenceIndex index, WorkerId worker, PageMap::Reservation reservation);
  static void forget_part_of_source(const Sequence& sequence, PageMap::Reservation& reservation);
  void preempt(SequenceIndex index);
  void interrupt(SequenceIndex index, StopReason reason);
  void give_up_device(SequenceIndex index);
  bool may_draw_ahead(const Sequence& sequence) const;
  bool is_waited_for_here(const Sequence& sequence) const;
  void allow_draw(Sequence& sequence) const;
  void hand_mask(Sequence& sequence);
  static void note_mask_wait(Sequence& sequence, std::chrono::nanoseconds wait);
  void close_masks(Sequence& sequence);
  void release(SequenceIndex index);
  void settle_pause(SequenceIndex index);
  std::optional<SequenceIndex> blame(const WorkerLost& event, const std::vector<Flight>& in_flight);
  void unblock();
  void expire_waiting();
  void look_after_devices();
  void look_after_queue();
  void give_up(WorkerId id, std::string reason);
  void flush_if_idle();
  void transfer_pages();

  // engine_core_turns.cpp: whose turn it is, where, and at whose cost
  bool is_queue_full() const;
  bool find_place(const AdmissionTicket& ticket);
  bool admit_next();
  bool may_start(std::uint64_t arrival) const;
  std::optional<SequenceIndex> next_in_turn(std::vector<WorkerId>& among) const;
  std::optional<SequenceIndex> next_suspect(const Worker& worker) const;
  WorkerId place(SequenceIndex index, const std::vector<WorkerId>& among) const;
  bool begin_fetch(SequenceIndex index, WorkerId worker);
  bool join(SequenceIndex index, WorkerId worker);
  bool has_departed(WorkerId worker) const;
  void relieve_shortage(const Worker& worker, SequenceIndex needy);
  bool let_yield(const Worker& worker, SequenceIndex newcomer, Claim claim, bool is_about_pages);
  std::uint32_t num_progressed(const Sequence& sequence, const Worker& worker) const;

  // engine_core_lengths.cpp: memory set aside for answers that are not there yet
  void foresee(SequenceIndex index);
  void foresee_again();
  void note_waiting(std::size_t first_command);
  static ForecastLength::Question question_of(const Sequence& sequence);
  bool take(Sequence& sequence, const LengthForecast::Answer& answer);
  void reserve_foretold(Sequence& sequence, std::uint32_t num_tokens, std::uint32_t standing);
  bool wants_state(const Sequence& sequence, const SequenceStep& step, const Worker& worker) const;
  void ask_with_state(const Sequence& sequence, std::span<const float> state,
                      std::optional<std::size_t>& place);
  bool refine(Sequence& sequence, const LengthForecast::Answer& answer);
  std::uint32_t refined_reservation(const Sequence& sequence, const LengthForecast::Answer& answer) const;
  std::uint64_t work_of(const Sequence& sequence) const;
  bool is_forecast_awaited(const Sequence& sequence) const;
  std::uint32_t expected_answer(const Sequence& sequence, std::uint32_t scenario) const;
  std::uint32_t least_expected(const Sequence& sequence) const;
  Commitment commitment_of(const Sequence& sequence, const Worker& worker, std::uint32_t scenario) const;
  std::vector<Commitment> commitments_of(const Worker& worker, std::uint32_t scenario) const;
  Room room_of(const Worker& worker) const;
  bool has_room(const Room& room, const Worker& worker, const Sequence& newcomer) const;
  bool all_fit(const Worker& worker) const;
  void limit_look_ahead(PageDemand& demand) const;
  void settle_overrun(SequenceIndex index);
  void learn_length(const Sequence& sequence);
  ReservationCosts costs_of(const Sequence& sequence) const;
  std::chrono::nanoseconds time_to_bring_back(const KvSources& sources, const Worker& worker) const;
  std::vector<LearnLength::Running> running_but(SequenceId ended) const;

  // engine_core_iteration.cpp: what happens in every iteration
  void advance();
  bool extend(WorkerId id, Worker& worker);
  bool submit_batch(WorkerId id, Worker& worker, std::chrono::nanoseconds longest = {});
  bool waits_for_masks(const Worker& worker, const Participants& participants) const;
  std::vector<BatchShare> form_next(Worker& worker, std::span<const BatchCandidate> candidates,
                                    std::chrono::nanoseconds longest) const;
  BatchLimits limits_of_batch(const Worker& worker, std::span<const BatchCandidate> candidates,
                              std::chrono::nanoseconds longest) const;
  Participants choose_participants(const Worker& worker, std::pmr::memory_resource* memory) const;
  Flight take_off(Worker& worker, const Participants& participants, const std::vector<BatchShare>& shares,
                  SubmitBatch& command);
  void absorb(WorkerId id, const Flight& flight, const BatchResult& result, std::chrono::nanoseconds time);
  void await_mask(Sequence& sequence, Batch* batch) const;
  void note_drawn(Sequence& sequence, const SliceResults& slices);
  void take_back_draws(Sequence& sequence);
  static bool has_drawn_nothing(const Sequence& sequence, const FlightEntry& entry,
                                const SliceResults& slices);
  void drop_step(const FlightEntry& entry, const SliceResults& slices);
  void absorb_scores(SequenceIndex index, const SliceResults& slices);
  bool absorb_token(SequenceIndex index, const SliceResults& slices);
  bool commit_tail(const Sequence& sequence);
  bool commit_pages(const Sequence& sequence, const SequenceStep& step);
  void report_iteration(WorkerId id, Worker& worker, const Flight& flight, const BatchResult* result);
  void drop_departed(LeaseId lease);
  void forget_pages();
  void forgive_deaths();

  void emit(SequenceId id, SequenceOutput output);
  NewToken& emit_token(SequenceId id);
  Sequence* find_run(SequenceIndex index, std::uint64_t run);
  std::optional<SequenceIndex> index_of(SequenceId id) const;
  PageMap::Lookup lookup_of(const Sequence& sequence) const;
  PageSizing page_sizing(const Worker& worker) const;

  CoreOptions options_;
  bool keeps_tokens_ = true;  // of sequences; false: nothing ever reads them
  PageMap pages_;
  Workers<Worker> workers_;
  std::optional<ServingLimits> limits_;  // known from the first device on
  std::uint32_t max_source_ = 0;         // tokens, if its sequences have sources: so, too

  std::vector<Sequence> sequences_;
  std::vector<SequenceIndex> free_indexes_;
  std::unordered_map<SequenceId, SequenceIndex> index_of_;
  ByArrival waiting_;                     // kWaiting and kFetching
  std::size_t num_steps_waiting_ = 0;     // of these, later steps of searches
  FairQueue flows_;                       // waiting and running requests, by flow
  std::map<LeaseId, Departed> departed_;  // in order: so are they released
  std::vector<Forgetting> forgets_;       // until what has departed holds no page of theirs
  Suspects suspects_;
  LengthHistory history_;                // of answers that have ended, where it is asked
  std::uint64_t num_learnt_ = 0;         // answers that the predictor was told of
  std::vector<std::uint64_t> flushes_;   // until nothing runs
  std::optional<TimePoint> idle_since_;  // no device has a batch, and one should have
  WatchedTime idle_time_{std::chrono::seconds(1)};
  bool is_idle_too_long_ = false;
  bool is_given_up_ = false;

  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_batch_ = 0;
  std::uint64_t last_run_ = 0;

  // While on() runs.
  TimePoint now_;
  Commands* out_ = nullptr;

  std::vector<FlightEntry> spare_entries_;  // empty: memory of a batch that is done, for the next one
};

}  // namespace troupe
