// SPDX-License-Identifier: Apache-2.0
// One server as the simulator sees it: the scheduler's decisions, taken by the
// same functions of policy/ in the same order at the same moments, on a device
// whose batches take what the profile says. Messages between the scheduler and
// the cache tier take no time, but are answered in turn, so that a newcomer
// misses the batch that is formed while its pages are asked for, as it does live.
//
//   admit ──► waiting ──pages, slot──► running ──► ended, or waiting if preempted
//                 └──► refused: too long a queue, or too long in it
//
// Not modelled: workers that die, clients that hang up or do not read.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loadgen/simulated_pages.hpp"
#include "policy/cost_profile.hpp"
#include "policy/dispatch.hpp"
#include "policy/sequence_progress.hpp"

namespace troupe::loadgen {

struct WorkerRequest {
  std::uint64_t id = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;  // ends after so many, by itself or at max_tokens
  std::uint32_t max_tokens = 0;     // >= output_tokens
  // All it will ever have, prompt and answer; null: shares nothing.
  std::shared_ptr<const std::vector<std::int32_t>> tokens;
};

struct WorkerEvent {
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
struct WorkerTotals {
  std::uint64_t num_batches = 0;
  std::uint64_t batch_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t num_preemptions = 0;
};

class SimulatedWorker {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the simulation

  // Both must outlive this. The profile has no problem; blank_prompt stands for
  // any prompt where ids are looked at: limits.longest_sequence()
  // valid ids, which is one too many.
  SimulatedWorker(const CostProfile& profile, std::span<const std::int32_t> blank_prompt,
                  bool says_each_token);

  void admit(Time now, const WorkerRequest& request);
  // When the oldest batch in flight is done; nullopt: none is in flight.
  std::optional<Time> next_done() const;
  void complete_batch();  // at next_done()
  // When the queue is looked through next; nullopt: when nothing is here.
  std::optional<Time> next_check() const { return next_check_; }
  void check_queue();  // at next_check()

  // What has happened since the call before, in order; the caller clears it.
  std::vector<WorkerEvent>& events() { return events_; }

  const WorkerLoad& load() const { return load_; }
  const WorkerTotals& totals() const { return totals_; }
  PageCounts page_counts() const { return pages_.counts(); }

 private:
  using Index = std::uint32_t;  // of sequences_

  struct Sequence {
    WorkerRequest request;
    std::uint64_t arrival = 0;
    Time arrived{0};
    std::uint64_t run = 0;  // unique; old ones name what is in flight of earlier runs
    SequenceProgress progress;
    LeaseId reservation = 0;
    std::uint32_t num_pages = 0;
    std::uint32_t cached_tokens = 0;
    Time queue_time{0};
    bool has_started = false;
    bool has_progressed = true;
    bool is_extending = false;

    std::uint32_t num_generated() const { return progress.num_known() - request.prompt_tokens; }
  };
  struct FlightEntry {
    Index sequence = 0;
    std::uint64_t run = 0;
    SequenceStep step;
  };
  struct Flight {
    Time done{0};
    std::vector<FlightEntry> entries;
  };
  // Pages that sequences gave up while batches in flight still wrote to them.
  struct Departed {
    std::uint64_t run = 0;
    LeaseId reservation = 0;
    std::uint32_t num_in_flight = 0;
  };
  // What the cache tier is asked: one reservation, or several extensions.
  struct PageQuestion {
    Index sequence = 0;
    std::uint64_t run = 0;
    LeaseId reservation = 0;
    PageDemand demand;
  };
  struct TierMessage {
    bool is_reservation = false;
    std::vector<PageQuestion> questions;
  };
  using Grants = std::vector<SimulatedPages::Grant>;  // one a question; no pages: refused

  bool check(Index index);
  void settle();
  void advance();
  void request_admission();
  void request_extensions();
  bool submit_batch();
  Grants ask_tier(const TierMessage& message);
  void take_reserved(const PageQuestion& question, const Grants& grants);
  void take_extended(const std::vector<PageQuestion>& questions, const Grants& grants);
  void relieve_shortage(const Sequence& needy);
  void start(const PageQuestion& question, const SimulatedPages::Grant& grant);
  void preempt(Index index);
  void give_up_device(Index index);
  void release(Index index);
  void absorb(const Flight& flight);
  void absorb_token(Index index);
  bool commit_pages(const Sequence& sequence, const SequenceStep& step);
  void return_pages(LeaseId reservation);
  void drop_departed(std::uint64_t run);
  void expire_waiting();
  void refuse(Index index, WorkerEvent::Kind kind);
  Sequence* find(Index index, std::uint64_t run);
  Index take_sequence();
  void say(WorkerEvent::Kind kind, const Sequence& sequence);

  const CostProfile& profile_;
  std::span<const std::int32_t> blank_prompt_;
  bool says_each_token_;
  SimulatedPages pages_;
  Time now_{0};
  Time device_free_{0};
  std::optional<Time> next_check_;

  std::vector<Sequence> sequences_;
  std::vector<Index> free_sequences_;
  std::map<std::uint64_t, Index> waiting_;  // by arrival
  std::vector<Index> running_;              // in order of arrival
  std::uint32_t num_free_slots_;
  std::deque<Flight> in_flight_;
  std::vector<std::vector<FlightEntry>> spare_entries_;
  std::vector<Departed> departed_;
  std::vector<TierMessage> questions_;  // that the cache tier has not answered
  std::vector<BatchCandidate> candidates_;
  // While a batch is absorbed: reservations that end with it, in the order in
  // which the cache tier gets them back; those that its last message to the tier
  // still names come last.
  bool is_absorbing_ = false;
  bool has_just_committed_ = false;
  std::vector<LeaseId> returned_, returned_last_;

  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_run_ = 0;
  LeaseId last_reservation_ = 0;
  bool is_reserving_ = false;
  bool is_admission_blocked_ = false;
  bool is_extension_blocked_ = false;

  std::vector<WorkerEvent> events_;
  WorkerLoad load_;
  WorkerTotals totals_;
};

}  // namespace troupe::loadgen
