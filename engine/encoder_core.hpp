// SPDX-License-Identifier: Apache-2.0
// The scheduler of a model that encodes each input in one pass, as a deterministic
// state machine like EngineCore: events in, commands out. A pass needs no pages and
// no slot; what waits joins the next batch in the order of its flow's turns, as far as
// tokens, rows and the batch's time allow. It may be padded, cut by a plan, and wait for
// others (policy/forming/encoder_batches.hpp, batch_trigger.hpp).
//
//   waiting ──batch──► in flight ──► ended
//      ▲                   │
//      └─── worker lost ◄──┘
//
// A value: equal events at equal times give equal commands. One caller at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/command.hpp"
#include "engine/core_options.hpp"
#include "engine/event.hpp"
#include "engine/worker_health.hpp"
#include "engine/workers.hpp"
#include "policy/admitting/admission.hpp"
#include "policy/admitting/fair_queue.hpp"
#include "policy/costs/encoder_costs.hpp"
#include "policy/costs/pass_time.hpp"
#include "policy/forming/batch_trigger.hpp"
#include "policy/forming/encoder_batches.hpp"
#include "policy/health/suspects.hpp"

namespace troupe {

class EncoderCore {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit EncoderCore(CoreOptions options) : options_(std::move(options)), costs_(options_.encoder_costs) {}

  // Appends commands to out. `now` never goes back.
  void on(const Event& event, TimePoint now, Commands& out);

  // As EngineCore. longest: of the batch on the device; 0: however long. One input
  // is in it whatever it takes.
  bool submit_one(WorkerId worker, std::chrono::nanoseconds longest, TimePoint now, Commands& out);
  void wait_for_others(WorkerId worker, TimePoint now) { workers_.wait_for_others(worker, now); }

  bool has_suspects() const { return !suspects_.is_empty(); }

  std::size_t num_sequences() const { return passes_.size(); }
  std::size_t num_waiting() const { return flows_.num_waiting(); }
  std::size_t num_flows_waiting() const { return flows_.num_flows_waiting(); }
  std::size_t num_running() const { return num_sequences() - num_waiting(); }
  std::size_t num_in_flight() const { return workers_.num_in_flight(); }  // batches
  std::size_t num_running(WorkerId worker) const;
  std::size_t num_in_flight(WorkerId worker) const { return workers_.num_in_flight(worker); }
  Trouble trouble() const { return workers_.trouble(); }
  bool is_given_up() const { return is_given_up_; }
  const AdmissionTicket* find(SequenceId id) const;  // null: it has ended
  // Times of padded batches, as measured and as seen since; learnt with EncoderBatching::kDp only.
  const EncoderCosts& costs() const { return costs_; }

 private:
  friend class Fingerprint;  // as in EngineCore
  using Arrival = FairQueue::Arrival;

  // One input on its way.
  struct Pass {
    std::shared_ptr<const AdmissionTicket> ticket;
    FairQueue::FlowId flow = 0;
    TimePoint arrived, queued;
    bool is_admitted = false;
    bool has_started = false;
    // True while no input of its request has been in a batch.
    bool is_new() const { return !has_started && !ticket->has_begun; }
    std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(ticket->prompt.size()); }
  };
  struct Flight {
    std::uint64_t batch_id = 0;
    TimePoint submitted;
    EncoderBatch size;
    std::vector<Arrival> passes;  // one a slice; some may have left meanwhile
    WorkerHealth::Owed owed() const { return {.submitted = submitted, .num_tokens = size.num_computed()}; }
  };
  struct Worker {
    WorkerHealth health;
    std::uint32_t max_tokens = 0, max_rows = 0;  // of a batch
    std::uint32_t vector_size = 0;
    std::deque<Flight> in_flight;
    PassTime pass_time;
  };

  void take(const Admit& event);
  void take(const StopSequence& event);
  void take(const PauseSequence&) {}  // one answer, which is small: it is never held back
  void take(const ResumeSequence&) {}
  void take(const AllowTokens&) {}
  void take(const LengthForecast&) {}
  void take(const TimerFired&);
  void take(const WorkerReady& event);
  void take(const BatchDone& event);
  void take(const WorkerLost& event);
  void take(const TransfersDone&) {}  // it has no pages
  void take(const DiskShort&) {}
  void take(const DiskMayGrow&) {}
  void take(const ForgetPages&) {}
  void take(const FlushPages& event) { flushes_.push_back(event.number); }
  void take(const SchedulerTick&);

  bool find_place(const AdmissionTicket& ticket);
  std::optional<SequenceFailed> refusal_of(const AdmissionTicket& ticket) const;
  void admit(Arrival arrival);
  void advance();
  bool submit(WorkerId id, std::chrono::nanoseconds longest);
  bool is_due(const Worker& worker);
  EncoderBatchLimits limits_of(const Worker& worker, std::chrono::nanoseconds longest) const;
  void fill_in_turn(WorkerId id, Flight& flight);
  void fill_by_plan(WorkerId id, Flight& flight);
  bool make_plan(const EncoderBatchLimits& limits);
  bool is_waiting(Arrival arrival) const {
    return passes_.contains(arrival) && !in_batches_.contains(arrival);
  }
  std::optional<Arrival> next_pass(const Worker& worker) const;
  void join(Flight& flight, Arrival arrival, WorkerId worker);
  void start(Arrival arrival, WorkerId worker);
  SubmitBatch command_of(const Flight& flight, WorkerId id) const;
  std::uint32_t num_slice_tokens(const Flight& flight, const Pass& pass) const;
  std::shared_ptr<const Batch> make_batch(const Flight& flight) const;
  void finish(const Worker& worker, const Flight& flight, const BatchResult& result);
  void learn(Worker& worker, const Flight& flight, std::chrono::nanoseconds time);
  void blame(const WorkerLost& event, const std::deque<Flight>& in_flight);
  void report(WorkerId id, const Worker& worker, const Flight& flight, const BatchResult* result);
  void expire_waiting();
  void look_after_devices();
  void flush_if_idle();
  void fail(Arrival arrival, SequenceFailure failure, std::string message,
            std::optional<std::string> field = std::nullopt);
  void release(Arrival arrival);
  void emit(SequenceId id, SequenceOutput output);

  CoreOptions options_;
  std::optional<ServingLimits> limits_;  // known from the first device on
  Workers<Worker> workers_;
  std::map<Arrival, Pass> passes_;
  std::map<Arrival, WorkerId> in_batches_;  // of these, those in flight
  std::unordered_map<SequenceId, Arrival> arrival_of_;
  FairQueue flows_;
  std::size_t num_new_ = 0;  // passes that are new, all of them waiting
  Suspects suspects_;
  EncoderCosts costs_;
  std::deque<std::vector<Arrival>> plan_;  // kDp: batches to come; some texts may have left meanwhile
  std::optional<TimePoint> timer_;         // the next one that was set and has not fired
  std::vector<std::uint64_t> flushes_;
  bool is_given_up_ = false;
  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_batch_ = 0;

  // While on() runs.
  TimePoint now_;
  Commands* out_ = nullptr;
};

}  // namespace troupe
