// SPDX-License-Identifier: Apache-2.0
// Events: everything that can happen to the core. Plain copyable values; the
// actors send each other the same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/admission_ticket.hpp"
#include "gpu/device.hpp"
#include "gpu/program/batch.hpp"
#include "policy/pages/page_transfer.hpp"

namespace troupe {

// of a request
struct Admit {
  std::shared_ptr<const AdmissionTicket> ticket;
};
struct StopSequence {  // its request is gone, or has its answer; unknown ones are ignored
  SequenceId sequence = 0;
  bool is_answered = false;  // it has: a stop string, say, was drawn, and no more would have come
};
struct PauseSequence {  // its client does not read
  SequenceId sequence = 0;
};
struct ResumeSequence {
  SequenceId sequence = 0;
};
// A guided sequence's next token, the one behind so many generated ones, may be one of these.
struct AllowTokens {
  SequenceId sequence = 0;
  std::uint32_t num_generated = 0;
  std::shared_ptr<const TokenMask> allowed;
  // The allowed tokens behind which the same may come again: while those that are drawn are among them, all
  // of this goes on to hold, and nothing more is said. Null: none.
  std::shared_ptr<const TokenMask> free = {};
};

// of the predictor; what it says of a sequence that has ended is ignored
struct LengthForecast {
  struct Answer {
    SequenceId sequence = 0;
    std::uint32_t reserved_tokens = 0;  // to be set aside for its answer
    std::uint32_t likely_tokens = 0;    // of the answer: half are longer
    bool is_refined = false;            // by its state, at the end of its prefill or later
    std::uint32_t num_generated = 0;    // tokens that it had then
  };
  std::vector<Answer> answers;
};

// of a worker
struct ModelDevice {  // as it describes itself
  DeviceDescription description;
  bool can_be_abandoned = false;
};
struct WorkerReady {
  WorkerId worker = 0;
  Epoch epoch = 0;
  DeviceDescription description;  // of the first model's device
  bool can_be_abandoned = false;  // as the device says
  std::vector<ModelDevice> further_models = {};
};
struct BatchDone {
  WorkerId worker = 0;
  Epoch epoch = 0;
  BatchResult result;
  ModelIndex model = 0;  // of the batch
};
struct WorkerLost {  // the next WorkerReady of this worker has a new epoch
  WorkerId worker = 0;
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;            // the batch that did it; 0: any of those in flight may have
  std::optional<ModelIndex> model = {};  // of the device; none: any of them
  bool may_be_another = false;           // to one model's core: another's batch may have done it
};

// of the disk
struct FinishedTransfer {
  DiskTransfer transfer;
  TransferOutcome outcome = TransferOutcome::kDone;
};
struct TransfersDone {  // reads and writes
  std::vector<FinishedTransfer> transfers;
};
struct DiskShort {  // others need the space of so many pages on it; DiskGaveWay comes of it
  std::uint32_t num_pages = 0;
};
struct DiskMayGrow {};  // it is short no more

// The conversation of these tokens is over, but for its first num_kept. In every model
// that knows them.
struct ForgetPages {
  std::shared_ptr<const std::vector<std::int32_t>> tokens;
  std::size_t num_kept = 0;
  std::string cache_salt;
};
// Flushed is said when nothing runs and what is to be on disk is there.
struct FlushPages {
  std::uint64_t number = 0;  // the caller's
};
// Time has passed: every kQueueCheckInterval while there are sequences.
struct SchedulerTick {};
// The time of a SetTimer has come, of whichever model.
struct TimerFired {};

using Event = std::variant<Admit, StopSequence, PauseSequence, ResumeSequence, AllowTokens, LengthForecast,
                           WorkerReady, BatchDone, WorkerLost, TransfersDone, DiskShort, DiskMayGrow,
                           ForgetPages, FlushPages, SchedulerTick, TimerFired>;

}  // namespace troupe
