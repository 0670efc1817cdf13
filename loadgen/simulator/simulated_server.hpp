// SPDX-License-Identifier: Apache-2.0
// One server as the simulator sees it: the core of the real one
// (engine/engine_core.hpp) over a device whose batches take what the profile says: the
// fitted time times a residual drawn from its distribution. Loads run beside the
// computation that needs them, layer by layer, and stores behind them on the same link,
// so a batch ends no earlier than its copies.
//
// Not modelled: workers that die, clients that hang up or do not read.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "engine/engine_core.hpp"
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
};

struct ServerEvent {
  enum class Kind : std::uint8_t {
    kFirstToken,
    kToken,     // a later one; only said where each token is asked for
    kFinished,  // comes with the last token
    kOverloaded,
    kRejected,  // can never be served: longer than the context or the pages
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
  std::uint64_t num_loads = 0, num_stores = 0;  // of pages, from and to the host
};

class SimulatedServer {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the simulation

  // All of them must outlive this. The profile has no problem; blank_prompt stands for
  // any prompt where nothing is shared: limits.longest_sequence() valid ids, which
  // is one too many. commands: for all servers, empty between their calls; those of a thousand
  // would not stay in the processor's caches. seed: of what is drawn.
  SimulatedServer(const CostProfile& profile, std::span<const std::int32_t> blank_prompt, Commands& commands,
                  bool says_each_token, std::uint64_t seed);

  void admit(Time now, const SimulatedRequest& request);
  // When the oldest batch in flight is done; nullopt: none is in flight.
  std::optional<Time> next_done() const;
  void complete_batch();  // at next_done()
  // Before complete_batch(): loads what it will touch.
  void prefetch_done() const { core_.prefetch_done(0); }
  // When the queue is looked through next; nullopt: when nothing is here.
  std::optional<Time> next_check() const { return next_check_; }
  void check_queue();  // at next_check()

  // Events since the call before, in order; the caller clears it.
  std::vector<ServerEvent>& events() { return events_; }

  const WorkerLoad& load() const { return load_; }
  const ServerTotals& totals() const { return totals_; }
  PageCounts page_counts() const { return core_.pages().counts(); }

 private:
  struct Open {
    SimulatedRequest request;
    std::uint32_t num_generated = 0;
    std::uint32_t cached_tokens = 0;
    Time queue_time{0};
  };
  struct Flight {
    Time done{0};
    std::uint64_t batch_id = 0;
    std::size_t num_steps = 0;
    std::vector<SubmittedStep> steps;  // empty: of each any token is drawn
  };

  SequenceId add(const SimulatedRequest& request);
  void hand(const Event& event);
  void hand_over(const Event& event);
  void take(SubmitBatch&& command);
  Time compute_time(const IterationShape& shape);
  Time copy_time(std::span<const PageCopy> copies) const;
  void take(const Emit& command);
  void take(const ForecastLength& command);
  void take_token(SequenceId id, const NewToken& token);
  std::int32_t draw(const SubmittedStep& step) const;
  void end(SequenceId id, ServerEvent::Kind kind);

  const CostProfile& profile_;
  std::span<const std::int32_t> blank_prompt_;
  bool says_each_token_;
  EngineCore core_;
  LengthPredictor predictor_;  // as the predictor actor has it
  std::vector<LengthForecast> forecasts_;
  std::mt19937_64 random_;
  Commands& commands_;
  Time now_{0};
  Time device_free_{0};
  std::optional<Time> next_check_;
  std::vector<Open> open_;  // by SequenceId - 1
  std::vector<SequenceId> free_;
  // Some request has tokens of its own, or an end: each token has to be looked up.
  bool has_own_tokens_ = false;
  std::deque<Flight> in_flight_;
  std::vector<ServerEvent> events_;
  WorkerLoad load_;
  ServerTotals totals_;
};

}  // namespace troupe::loadgen
