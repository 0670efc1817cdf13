// SPDX-License-Identifier: Apache-2.0
// One server as the simulator sees it: the core of the real one (engine/engine_core.hpp,
// or engine/cell_core.hpp where the profile is of cells) over workers whose batches take what their profiles
// say: the fitted time times a residual drawn from its distribution. Loads run beside the computation that
// needs them, layer by layer, and stores behind them on the same link, so a batch ends no earlier than its
// copies. With a disk tier, pages go to the disk and come back in their own time (simulated_disk.hpp).
//
// A worker that is lost comes back empty, as a new incarnation; the core tries what was in
// flight again, as it does live. Not modelled: clients that do not read.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/model_cores.hpp"
#include "loadgen/simulator/simulated_disk.hpp"
#include "loadgen/simulator/simulated_states.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/lengths/length_predictor.hpp"
#include "policy/placing/dispatch.hpp"

namespace troupe::loadgen {

struct SimulatedRequest {
  std::uint64_t id = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;  // ends after so many, by itself or at max_tokens
  std::uint32_t max_tokens = 0;     // >= output_tokens
  // All it will ever have, prompt and answer; null: shares nothing.
  std::shared_ptr<const std::vector<std::int32_t>> tokens;
  // The tree, for a model of trees and no other; then it draws nothing.
  std::shared_ptr<const CellGraph> graph = {};
};

struct ServerEvent {
  enum class Kind : std::uint8_t {
    kFirstToken,
    kToken,     // a later one; only said where each token is asked for
    kFinished,  // comes with the last token
    kOverloaded,
    kRejected,  // can never be served: longer than the context or the pages
    kFailed,    // workers died of it, or while they ran it, once too often
  };
  Kind kind = Kind::kToken;
  std::uint64_t request = 0;
  std::uint32_t cached_tokens = 0;         // kFirstToken
  std::chrono::nanoseconds queue_time{0};  // kFirstToken
};

// Counters since the begin of the simulation.
struct ServerTotals {
  std::uint64_t num_batches = 0;
  std::uint64_t batch_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_refined = 0, num_shrunk = 0;  // reservations, by what states told
  std::uint64_t num_loads = 0, num_stores = 0;    // of pages, from and to the host
  std::uint64_t num_reads = 0, num_writes = 0;    // of pages, from and to the disk
  std::uint64_t num_losses = 0;                   // of workers

  ServerTotals& operator+=(const ServerTotals& more);
};

struct SimulatedServerSettings {
  bool says_each_token = false;
  std::uint64_t seed = 1;                // of what is drawn
  std::optional<double> state_strength;  // set: its devices hand out states, so strong (simulated_states.hpp)
  // Set: an encoder reads the prompts that wait, and its vectors are as such states.
  std::optional<double> encoder_strength;
};

class SimulatedServer {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the simulation

  // workers: the cost profile of each; all have the first one's settings, page size and
  // host pages. They and blank_prompt must outlive this. The profiles have no problem;
  // blank_prompt stands for any prompt where nothing is shared: limits.longest_sequence()
  // valid ids, which is one too many. commands: for all servers, empty between their calls and
  // outliving them; those of a thousand would not stay in the processor's caches.
  SimulatedServer(std::vector<const CostProfile*> workers, std::span<const std::int32_t> blank_prompt,
                  Commands& commands, const SimulatedServerSettings& settings);

  // The sequence, for cancel(), until its request has ended.
  SequenceId admit(Time now, const SimulatedRequest& request);
  // Its client is gone: nothing more is said of it.
  void cancel(Time now, SequenceId sequence);

  std::uint32_t num_workers() const { return static_cast<std::uint32_t>(workers_.size()); }
  // When the worker's oldest batch in flight is done; nullopt: none is in flight.
  std::optional<Time> next_done(WorkerId worker) const;
  void complete_batch(WorkerId worker);  // at next_done()
  // Before complete_batch(): load what it will touch, which is far away where there are many servers. In
  // this order and with other work in between, as each reads addresses that the one before has loaded.
  void prefetch_server(WorkerId worker) const;
  void prefetch_core(WorkerId worker) const;
  void prefetch_worker(WorkerId worker) const;
  void prefetch_batch(WorkerId worker) const;
  void prefetch_entries(WorkerId worker) const;
  // The worker dies, with all on its device; until restart() it is down.
  void lose(Time now, WorkerId worker);
  void restart(Time now, WorkerId worker);
  // When the queue is looked through next; nullopt: when nothing is here.
  std::optional<Time> next_check() const { return next_check_; }
  void check_queue();  // at next_check()
  // When the disk's next transfer is done; nullopt: it has nothing to do.
  std::optional<Time> next_transfer() const { return disk_.next_done(); }
  void complete_transfer();  // at next_transfer()

  // Events since the call before, in order; the caller clears it.
  std::vector<ServerEvent>& events() { return events_; }

  const WorkerLoad& load() const { return load_; }
  const ServerTotals& totals() const { return totals_; }
  const LengthPredictor& predictor() const { return predictor_; }
  PageCounts page_counts() const { return cores_.page_counts(); }
  // When all requests have ended: what is left behind that should not be, or nothing. Not cheap.
  std::string leftovers() const;

 private:
  struct Open {
    SimulatedRequest request;
    std::uint64_t number = 0;  // in order of admission
    std::uint32_t num_generated = 0;
    std::uint32_t cached_tokens = 0;
    Time queue_time{0};
  };
  struct Flight {
    Time done{0};
    std::uint64_t batch_id = 0;
    std::size_t num_steps = 0;
    std::vector<SubmittedStep> steps;  // empty: of each any token is drawn, and no state is wanted
  };
  struct Worker {
    const CostProfile* profile = nullptr;
    Epoch epoch = 0;
    Time device_free{0};
    std::vector<Flight> in_flight;  // oldest first, a few
  };

  SequenceId add(const SimulatedRequest& request);
  void hand(const Event& event);
  void hand_over(const Event& event);
  void take(SubmitBatch&& command);
  void take(TransferPages&& command);
  Time compute_time(const CostProfile& profile, const SubmitBatch& batch);
  void take(const Emit& command);
  void take(const ForecastLength& command);
  void read_prompts(const ForecastLength& command);
  void take_token(SequenceId id, const NewToken& token);
  std::int32_t draw(const SubmittedStep& step) const;
  void hand_out_state(const SubmittedStep& step, BatchResult& result) const;
  void end(SequenceId id, ServerEvent::Kind kind);
  void forget(SequenceId id);

  // Read for every batch.
  std::vector<Worker> workers_;  // by WorkerId
  ModelCores cores_;             // one
  Commands& commands_;
  Time now_{0};
  std::optional<Time> next_check_;
  bool says_each_token_;
  // Some request has tokens of its own, or an end, or states are wanted: each token has to be looked up.
  bool has_own_tokens_ = false;
  std::vector<Open> open_;  // by SequenceId - 1
  std::vector<LengthForecast> forecasts_;
  std::vector<ServerEvent> events_;
  WorkerLoad load_;
  ServerTotals totals_;
  SimulatedDisk disk_;

  // Not for every batch.
  std::vector<SequenceId> free_;
  Epoch last_epoch_ = 0;
  std::uint64_t num_admitted_ = 0;
  std::span<const std::int32_t> blank_prompt_;
  std::optional<SimulatedStateSettings> states_, vectors_;
  LengthPredictor predictor_;  // as the predictor actor has it
  std::mt19937_64 random_;
};

}  // namespace troupe::loadgen
