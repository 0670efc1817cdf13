// SPDX-License-Identifier: Apache-2.0
// Commands: everything that the core wants done, in the order in which it is to
// be done, and reports of what happened in it, for metrics and traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/event.hpp"
#include "engine/sequence_output.hpp"
#include "gpu/program/batch.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/lengths/reserved_quantile.hpp"
#include "policy/pages/page_transfer.hpp"

namespace troupe {

// to the sequence's request
struct Emit {
  SequenceId sequence = 0;
  SequenceOutput output;
};

// One slice of a batch, for a simulated device.
struct SubmittedStep {
  SequenceId sequence = 0;
  bool samples = false;
  bool wants_state = false;  // as SequenceSlice::wants_state
};
// to a worker: behind the batches submitted before
struct SubmitBatch {
  WorkerId worker = 0;
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;  // the model's own count
  IterationShape shape = {};
  ModelIndex model = 0;
  CellId cell = 0;
  // Null where CoreOptions::makes_batches is false, and instead its steps and copies:
  std::shared_ptr<const Batch> batch = {};
  std::vector<SubmittedStep> steps = {};
  std::vector<PageCopy> copies = {};
};

// to the cache tier; TransfersDone comes for each read and write
struct TransferPages {
  std::vector<DiskTransfer> transfers;
};

struct DiskGaveWay {};  // to the cache tier: releases for a DiskShort were before this

// to the supervisor
struct WorkerStalled {  // a worker has done nothing for far too long
  WorkerId worker = 0;
  Epoch epoch = 0;
  bool is_hopeless = false;  // nothing more will help; otherwise the device can be abandoned
  std::string reason;
  ModelIndex model = 0;  // of the device
};
struct DeathsForgiven {  // a request was to blame, and is set apart
  std::vector<Epoch> epochs;
};

// to the predictor; LengthForecast comes of it, some time or never. A sequence may be asked
// about again while it waits, as more is known of others, at the end of its prefill, and every 32
// tokens of its answer.
struct ForecastLength {
  struct Question {
    SequenceId sequence = 0;
    std::uint32_t max_tokens = 0;  // of the answer
    std::shared_ptr<const AdmissionTicket> ticket;
    // Once it runs: the network's state at its last token, which is the prompt's last one or that of its
    // num_generated. Else null.
    std::shared_ptr<const std::vector<float>> state = {};
    std::uint32_t num_generated = 0;
    bool waits = false;  // it has not run yet
  };
  ModelIndex model = 0;
  std::uint32_t page_size = 0;  // tokens
  std::vector<Question> questions;
};
// to the predictor: an answer that it was asked about is over
struct LearnLength {
  struct Running {
    SequenceId sequence = 0;
    std::uint32_t num_tokens = 0;  // of its answer, so far
  };
  SequenceId sequence = 0;
  ModelIndex model = 0;
  std::uint32_t num_tokens = 0;
  bool is_whole = false;              // it ended by itself; else it would have become longer
  ReservationCosts costs = {};        // known while others wait: else memory costs nothing
  std::vector<Running> running = {};  // others that go on; not said each time
};

// to the scheduler: TimerFired comes of it then, or a little later
struct SetTimer {
  std::chrono::steady_clock::time_point time;
};

// to the caller of FlushPages
struct Flushed {
  std::uint64_t number = 0;
};

// to the device that waits, or will, for the mask of a draw in flight
struct HandMask {
  std::shared_ptr<MaskSlot> slot;
  std::shared_ptr<const TokenMask> mask;  // null: none comes, the slot is to be closed
};

// reports
struct IterationReport {
  using TimePoint = std::chrono::steady_clock::time_point;
  WorkerId worker = 0;
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;
  TimePoint begun, ended;  // on the device
  std::int64_t network_nanoseconds = 0;
  std::uint32_t num_tokens = 0, num_sequences = 0;
  std::uint32_t num_decodes = 0;                   // sequences that advanced by one drawn token
  IterationShape shape = {};                       // its cost follows from it; of a decoder
  std::uint32_t num_running = 0, num_waiting = 0;  // when it ended
  std::uint32_t num_copies = 0;                    // of pages that went with it
  bool is_lost = false;                            // its worker died
  ModelIndex model = 0;

  // Batches without slices are there for their copies.
  bool has_slices() const { return num_sequences > 0; }
};
struct PagesNotIntact {  // found on the host by their generations; computed again
  std::vector<std::uint64_t> generations;
};
struct DiskDamage {  // transfers that failed, or found other contents than expected
  std::vector<FinishedTransfer> transfers;
};

using Command =
    std::variant<Emit, SubmitBatch, TransferPages, DiskGaveWay, WorkerStalled, DeathsForgiven, ForecastLength,
                 LearnLength, SetTimer, Flushed, HandMask, IterationReport, PagesNotIntact, DiskDamage>;
using Commands = std::vector<Command>;

}  // namespace troupe
