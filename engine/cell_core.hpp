// SPDX-License-Identifier: Apache-2.0
// The scheduler of a model whose cells keep rows of state (LSTMs, GRUs, from sequence to
// sequence, trees), as a deterministic state machine like EngineCore: events in, commands
// out. A request is a graph of cells (policy/unfolding/cell_graph.hpp); a batch has ready
// nodes of one cell type, of any requests and at any depth (BatchMaker), and which type is
// next follows policy/forming/cell_choice.hpp.
//
//            rows on a worker         node by node
//   waiting ─────────────────► running ────────────► ended
//      ▲                        │    │ client does not read
//      │                        │    ▼
//      └── worker lost ◄────────┘  paused ──resume──► waiting
//
// All rows that a request will need are its own from its start, on one worker, so nothing
// waits for rows half-way; its nodes run there only. When a worker dies its requests are
// computed again from their graphs and the tokens that are known. A newcomer is in the next
// batch.
//
// What that is compared with (CellBatching): batches of whole graphs, which a worker takes on
// when it has none and leaves when all their requests have ended; they are padded in front of
// their first node and, as long as others of the batch draw, behind their last. Or each request
// alone, by turns.
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
#include <variant>
#include <vector>

#include "engine/command.hpp"
#include "engine/core_options.hpp"
#include "engine/event.hpp"
#include "engine/token_counts.hpp"
#include "engine/worker_health.hpp"
#include "engine/workers.hpp"
#include "policy/admitting/admission.hpp"
#include "policy/admitting/fair_queue.hpp"
#include "policy/forming/cell_choice.hpp"
#include "policy/forming/length_buckets.hpp"
#include "policy/health/suspects.hpp"
#include "policy/unfolding/graph_progress.hpp"

namespace troupe {

class CellCore {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // options.unfolding is set.
  explicit CellCore(CoreOptions options);

  // Appends commands to out. `now` never goes back.
  void on(const Event& event, TimePoint now, Commands& out);

  // As EngineCore.
  bool submit_one(WorkerId worker, TimePoint now, Commands& out);
  void wait_for_others(WorkerId worker, TimePoint now) { workers_.wait_for_others(worker, now); }
  bool has_suspects() const;

  std::size_t num_sequences() const { return runs_.size(); }
  std::size_t num_waiting() const { return flows_.num_waiting(); }
  std::size_t num_flows_waiting() const { return flows_.num_flows_waiting(); }
  std::size_t num_running() const;
  std::size_t num_in_flight() const { return workers_.num_in_flight(); }  // batches
  std::size_t num_running(WorkerId worker) const;
  std::size_t num_in_flight(WorkerId worker) const { return workers_.num_in_flight(worker); }
  Trouble trouble() const { return workers_.trouble(); }
  bool is_given_up() const { return is_given_up_; }
  const AdmissionTicket* find(SequenceId id) const;  // null: it has ended

  std::size_t num_free_rows(WorkerId worker) const;
  // Every row of a worker is free, or one running request's.
  bool is_consistent() const;

 private:
  friend class Fingerprint;  // as in EngineCore
  using Arrival = FairQueue::Arrival;

  enum class Phase : std::uint8_t { kWaiting, kRunning, kPaused };

  // One request on its way.
  struct Run {
    std::shared_ptr<const AdmissionTicket> ticket;
    Phase phase = Phase::kWaiting;
    FairQueue::FlowId flow = 0;
    TimePoint arrived, queued, started;
    std::uint64_t number = 0;  // unique; what was submitted for an older one is void
    bool is_checked = false;
    bool is_paused = false;  // leaves its worker when nothing of it is in flight
    bool has_started = false;
    GraphProgress progress;      // from is_checked on
    std::uint32_t length = 0;    // so, too: nodes of the cell that it begins with
    std::vector<float> results;  // of the graph's result nodes, in their order
    BatchTally batches;
    std::optional<TokenCounts> penalized;
    std::shared_ptr<const TokenMask> allowed;  // of a guided answer: for the next token
    std::shared_ptr<const TokenMask> free;     // as AllowTokens says with `allowed`
    // While it runs:
    WorkerId worker = 0;
    std::vector<SlotId> rows;
    std::uint32_t num_padding = 0;       // steps in front of its first node
    std::optional<SequenceOutput> held;  // its end, which is told when its batch of whole graphs is done
    std::uint64_t last_batch = 0;        // that it was in

    bool is_guided() const { return ticket->allowed_first != nullptr; }
    bool is_new() const { return !has_started && !ticket->has_begun; }
    std::uint32_t num_prompt() const { return static_cast<std::uint32_t>(ticket->prompt.size()); }
  };
  struct FlightEntry {
    Arrival run = 0;
    std::uint64_t number = 0;
    SequenceId id = 0;
    std::uint32_t ordinal = 0;  // of the nodes that the run submitted
    GraphProgress::Step step;
  };
  struct Flight {
    std::uint64_t batch_id = 0;
    TimePoint submitted;
    CellId cell = 0;
    std::uint32_t num_nodes = 0;  // with padding, which is behind the entries
    std::uint32_t num_draws = 0;
    std::vector<FlightEntry> entries;

    WorkerHealth::Owed owed() const { return {.submitted = submitted, .num_tokens = num_nodes}; }
  };
  struct Worker {
    WorkerHealth health;
    DeviceDescription device;
    std::uint32_t max_nodes = 0;    // of a batch
    std::uint32_t max_running = 0;  // requests
    std::vector<Arrival> running;   // by arrival
    std::vector<SlotId> free_rows;
    std::deque<Flight> in_flight;
    CellTurns turns;
  };
  // A request that can be served.
  struct Unfolded {
    std::shared_ptr<const CellGraph> graph;
    std::uint32_t max_total = 0;  // tokens, of a graph that grows
  };
  using Verdict = std::variant<Unfolded, Refusal>;

  void take(const Admit& event);
  void take(const StopSequence& event);
  void take(const PauseSequence& event);
  void take(const ResumeSequence& event);
  void take(const AllowTokens& event);
  void take(const LengthForecast&) {}
  void take(const TimerFired&) {}
  void take(const WorkerReady& event);
  void take(const BatchDone& event);
  void take(const WorkerLost& event);
  void take(const TransfersDone&) {}  // it has no pages
  void take(const DiskShort&) {}
  void take(const DiskMayGrow&) {}
  void take(const ForgetPages&) {}
  void take(const FlushPages& event) { flushes_.push_back(event.number); }
  void take(const SchedulerTick&);

  // cell_core.cpp: what happens to one request, or to a worker
  bool find_place(const AdmissionTicket& ticket);
  std::optional<Refusal> refusal_of(const AdmissionTicket& ticket, const CellGraph& graph) const;
  Verdict examine(const AdmissionTicket& ticket) const;
  static std::optional<SequenceFailed> refusal_in(const Verdict& verdict);
  std::shared_ptr<const CellGraph> unfold(const AdmissionTicket& ticket) const;
  void check(Arrival arrival);
  void know_drawn(Run& run);
  void enqueue(Arrival arrival, Run& run);
  bool batches_whole_graphs() const;
  void admit_waiting();
  bool admit_next();
  void admit_batch(WorkerId id);
  void pad(const Worker& worker);
  std::optional<Arrival> next_to_admit() const;
  std::optional<WorkerId> place(const Run& run) const;
  void start(Arrival arrival, Run& run, WorkerId worker);
  void give_up_rows(Arrival arrival, Run& run);
  void interrupt(Arrival arrival, StopReason reason);
  void settle_pause(Arrival arrival);
  void end(Arrival arrival, SequenceOutput output);
  void tell_ends();
  void blame(const WorkerLost& event, const std::deque<Flight>& in_flight);
  void expire_waiting();
  void look_after_devices();
  void flush_if_idle();
  void fail(Arrival arrival, SequenceFailure failure, std::string message,
            std::optional<std::string> field = std::nullopt);
  void release(Arrival arrival);
  void emit(SequenceId id, SequenceOutput output);
  std::optional<Arrival> arrival_of(SequenceId id) const;

  // cell_core_iteration.cpp: what happens in every batch
  void advance();
  bool submit(WorkerId id);
  std::vector<Arrival> choose_participants(const Worker& worker) const;
  void keep_next_instance(std::vector<Arrival>& participants) const;
  std::uint32_t num_ready(const Run& run, CellId cell) const;
  std::vector<CellLoad> loads_of(const Worker& worker, const std::vector<Arrival>& participants) const;
  std::uint32_t max_batch_of(const Worker& worker, CellId cell) const;
  std::uint32_t num_batches_of(CellId cell) const;
  Flight take_off(Worker& worker, CellId cell, const std::vector<Arrival>& participants,
                  SubmitBatch& command);
  bool is_padded_behind(const Run& run, CellId cell) const;
  void add_padding(const std::vector<Arrival>& padded, Batch& batch, IterationShape& shape);
  void add_slice(Batch& batch, const Run& run, const GraphProgress::Step& step) const;
  void absorb(const Worker& worker, const Flight& flight, const BatchResult& result,
              std::chrono::nanoseconds time);
  bool absorb_vector(Run& run, const GraphProgress::Step& step, const BatchResult& result, std::size_t slice,
                     std::size_t size);
  void absorb_token(Arrival arrival, const BatchResult& result, std::size_t slice);
  void report(WorkerId id, Worker& worker, const Flight& flight, const BatchResult* result);

  CoreOptions options_;
  std::optional<ServingLimits> limits_;  // known from the first device on
  std::vector<CellType> cells_;          // so are these
  std::uint32_t num_rows_ = 0;           // of the smallest device that has been up
  Workers<Worker> workers_;
  std::map<Arrival, Run> runs_;
  std::unordered_map<SequenceId, Arrival> arrival_of_;
  FairQueue flows_;
  LengthBuckets buckets_;
  std::size_t num_new_ = 0;  // runs that are new
  Suspects suspects_;
  std::vector<std::uint64_t> flushes_;
  bool is_given_up_ = false;
  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_batch_ = 0;
  std::uint64_t last_number_ = 0;

  // While on() runs.
  TimePoint now_;
  Commands* out_ = nullptr;
};

}  // namespace troupe
