// SPDX-License-Identifier: Apache-2.0
// One a model: owns the waiting and the running sequences and decides, whenever
// something has happened, who joins, who gets pages, and what the next batch
// is; keeps up to max_in_flight batches submitted, so that the device finds the
// next one when it has finished one.
//
//            pages + slot              token by token
//   waiting ─────────────► running ─────────────────────► ended
//      ▲                    │    │ client does not read
//      │ preempted, or      │    ▼
//      └─ worker lost ◄─────┘  paused ──resume──► waiting
//
// Waiting sequences are taken in order of arrival, so one that was preempted
// comes before all who never ran; one whose pages come from the disk lets others
// pass meanwhile. Nothing here waits for a reply: pages are
// asked for ahead, and a sequence without them just is not in the batch.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/iteration_trace.hpp"
#include "actors/message_types.hpp"
#include "actors/sequence.hpp"
#include "policy/admission.hpp"
#include "policy/batch_former.hpp"
#include "policy/iteration_time.hpp"
#include "policy/page_demand.hpp"
#include "policy/suspects.hpp"
#include "telemetry/span_rate.hpp"

namespace troupe {

class SchedulerState {
 public:
  using Self = SchedulerActor::stateful_pointer<SchedulerState>;
  static inline const char* name = "scheduler";

  void initialize(Self self, Environment environment, CacheTierActor tier);

  // one for each message
  void admit(const Admit& message, RequestActor request);
  void stop(SequenceId id);
  void pause(SequenceId id);
  void resume(SequenceId id);
  void take_reserved(const PagesReserved& message);
  void take_extended(const PagesExtended& message);
  void take_moves(const MovePages& message);
  void take_fetched(const PagesFetched& message);
  void flush(const FlushPages& message);
  void take_worker(const WorkerReady& message, WorkerActor worker);
  void take_batch(const BatchDone& message);
  void lose_worker(const WorkerLost& message);
  void take_down(caf::actor_id request);
  void tick();
  void set_supervisor(SupervisorActor supervisor) { supervisor_ = std::move(supervisor); }

  std::size_t num_sequences() const { return sequences_.size(); }
  std::size_t num_in_flight() const { return in_flight_.size(); }
  // By arrival; for tests.
  const std::map<std::uint64_t, Sequence*>& running() const { return running_; }
  const std::map<std::uint64_t, Sequence*>& waiting() const { return waiting_; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  using ByArrival = std::map<std::uint64_t, Sequence*>;

  struct FlightEntry {
    SequenceId sequence = 0;
    std::uint64_t run = 0;
    SequenceStep step;
    LeasePtr lease;  // the pages stay while the device may write to them
  };
  // What came of the slices of one step.
  struct SliceResults {
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
    const TokenLogprobs* logprobs(std::size_t i) const {  // null if the batch has none
      return first + i < result.logprobs.size() ? &result.logprobs[first + i] : nullptr;
    }
  };
  struct Flight {
    std::uint64_t batch_id = 0;
    TimePoint submitted;
    std::uint32_t num_tokens = 0;
    std::uint32_t num_decodes = 0;  // sequences that advance by one drawn token
    std::vector<FlightEntry> entries;
    std::vector<PageMove> moves;
    IterationLinks links;
  };

  // scheduler.cpp: what happens to one sequence
  bool check(Sequence& sequence);
  void refuse(const RequestActor& request, ApiErrorKind kind, std::string message,
              std::optional<std::string> field = std::nullopt);
  void fail(Sequence& sequence, ApiErrorKind kind, std::string message);
  void enqueue(Sequence& sequence);
  void start(Sequence& sequence, const PagesReserved& reserved);
  void preempt(Sequence& sequence);
  void interrupt(Sequence& sequence, StopReason reason);
  void give_up_device(Sequence& sequence);
  void release(Sequence& sequence);
  void settle_pause(Sequence& sequence);
  Sequence* blame(Epoch epoch, const std::deque<Flight>& in_flight, std::uint64_t batch_id);
  Sequence* find(SequenceId id);
  Sequence* find(SequenceId id, std::uint64_t run);

  // scheduler_iteration.cpp: what happens in every iteration
  void advance();
  void request_admission();
  Sequence* next_to_admit();
  void request_extensions();
  void relieve_shortage(const Sequence& needy);
  bool submit_batch();
  void flush_if_idle();
  std::vector<Sequence*> choose_participants() const;
  void forgive_deaths();
  void absorb(const Flight& flight, const BatchResult& result);
  void absorb_scores(Sequence& sequence, const SliceResults& slices);
  // logprobs: null if the batch has none.
  void absorb_token(Sequence& sequence, std::int32_t token, const TokenLogprobs* logprobs);
  void commit_pages(const Sequence& sequence, const SequenceStep& step,
                    std::vector<PageCommit>& commits) const;
  void observe_iteration(const Flight& flight, const BatchResult& result);
  void trace_iteration(const Flight& flight, TimePoint ended, const BatchResult* result);
  void publish() const;
  void expire_waiting(TimePoint now);
  void check_stall(TimePoint now);
  void keep_ticking();

  PageSizing page_sizing() const;
  bool has_worker() const { return static_cast<bool>(worker_); }
  TimePoint now() const;

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  CacheTierActor tier_;
  SupervisorActor supervisor_;

  WorkerActor worker_;  // null while there is none
  Epoch epoch_ = 0;
  DeviceDescription device_;
  ServingLimits limits_;
  BatchLimits batch_limits_;

  std::unordered_map<SequenceId, Sequence> sequences_;
  std::unordered_map<caf::actor_id, SequenceId> by_request_;
  ByArrival waiting_;  // kWaiting, kReserving and kFetching
  ByArrival running_;
  std::vector<SlotId> free_slots_;
  std::deque<Flight> in_flight_;
  std::vector<PageMove> moves_;  // for the next batch
  bool may_moves_go_alone_ = false;
  std::vector<FlushPages> flushes_;  // until nothing runs
  Suspects suspects_;

  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_batch_ = 0;
  std::uint64_t last_run_ = 0;
  bool is_reserving_ = false;          // one sequence at a time
  bool is_admission_blocked_ = false;  // no pages for the next; until some come back
  bool is_extension_blocked_ = false;
  bool is_ticking_ = false;
  TimePoint last_done_, lost_;
  IterationTime iteration_time_;
  SpanRate iteration_spans_{0};
};

SchedulerActor::behavior_type make_scheduler(SchedulerState::Self self, Environment environment,
                                             CacheTierActor tier);

}  // namespace troupe
