// SPDX-License-Identifier: Apache-2.0
// Outputs of the core about one sequence, in the order in which they happen:
//
//   Admitted → (SequenceStarted → NewToken* → SequenceStopped)* → last NewToken
//   Admitted → (SequenceStarted → SequenceStopped)* SequenceStarted → Encoded
//
// the second of a model that encodes its input in one pass;
// or SequenceFailed at any place, after which nothing more comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/admission_ticket.hpp"

namespace troupe {

// Where the KV of a request's known tokens came from when it was given pages,
// summed over all the times that happened.
struct KvSources {
  std::uint32_t device = 0, host = 0, disk = 0;  // tokens, by the tier that had them
  std::uint32_t recomputed = 0;                  // once computed and now nowhere: computed again
};

// The request can be served.
struct Admitted {};

// The sequence has pages and a slot, for the first time or again.
struct SequenceStarted {
  using TimePoint = std::chrono::steady_clock::time_point;
  TimePoint queued;                        // began to wait
  TimePoint asked;                         // first came up for pages since
  TimePoint load_began = {}, loaded = {};  // from the disk, meanwhile; the epoch: it was not
  TimePoint started;
  std::uint32_t num_known = 0;         // prompt and what was generated before
  std::uint32_t cached_tokens = 0;     // of these, found in shared pages
  std::uint32_t looked_up_tokens = 0;  // of these, looked for there; 0 for later steps of a search, too
  KvSources sources = {};
  WorkerId worker = 0;
  Epoch epoch = 0;
  std::optional<std::chrono::nanoseconds> queue_time = {};  // since arrival; the first time only
};

enum class StopReason : std::uint8_t {
  kPreempted,
  kPaused,
  kWorkerLost,
  kContextLost,  // a page of its context could not be loaded
};
// The sequence gave up its pages and its slot before its end.
struct SequenceStopped {
  StopReason reason = StopReason::kPreempted;
  std::chrono::steady_clock::time_point time;
  bool is_paused = false;  // it waits for its client, not for its turn
};

// The memory that is set aside for its answer has changed (policy/lengths/reservation.hpp).
struct ReservationChanged {
  enum class Cause : std::uint8_t {
    kForecast,
    kRefined,  // its state foretold a longer answer, at the end of its prefill or later
    kShrunk,   // so, too, a shorter one, while it ran
    kGrown,    // it neared its end, and there was room
    kGaveWay,  // so, too, and there was none: SequenceStopped follows
  };
  Cause cause = Cause::kForecast;
  std::uint32_t num_tokens = 0;  // of its answer, as it is now
  std::chrono::steady_clock::time_point time;
};

// Batches that a sequence was in, from its begin on.
struct BatchTally {
  std::uint32_t num_batches = 0;
  std::uint64_t num_sequences = 0;   // summed over these batches, the sequence itself included
  std::chrono::nanoseconds time{0};  // of these batches, on the device

  BatchTally& operator+=(const BatchTally& more) {
    num_batches += more.num_batches;
    num_sequences += more.num_sequences;
    time += more.time;
    return *this;
  }
  BatchTally operator-(const BatchTally& earlier) const {
    return {.num_batches = num_batches - earlier.num_batches,
            .num_sequences = num_sequences - earlier.num_sequences,
            .time = time - earlier.time};
  }
};

enum class SequenceEnd : std::uint8_t { kNotYet, kEndToken, kLength };
struct NewToken {
  SequenceId sequence = 0;
  std::int32_t token = -1;  // -1: none came with the end
  std::uint32_t index = 0;  // of the answer's tokens, from 1
  std::uint32_t cached_tokens = 0;
  SequenceEnd end = SequenceEnd::kNotYet;
  std::chrono::steady_clock::time_point started = {};  // when its first turn came
  BatchTally batches = {};                             // up to the one that drew it
  std::shared_ptr<const TokenLogprobs> logprobs = {};  // null: not asked for
  // Once, if they were asked for: the prompt's, from its second token on.
  std::shared_ptr<const std::vector<TokenLogprobs>> prompt_logprobs = {};
};

// The input's vector, and the end.
struct Encoded {
  SequenceId sequence = 0;
  std::vector<float> vector;
};

enum class SequenceFailure : std::uint8_t {
  kQueueFull,       // at arrival
  kDisplaced,       // it waited, and made room for a flow that has fewer requests
  kQueueTimeout,    // its turn did not come in time
  kContextTooLong,  // it can't be served
  kInvalidRequest,  // it can't be served
  kDeviceFault,     // the device gave no valid result for it
  kKillsWorkers,    // workers die of it
};
// Refused at admission, or given up later.
struct SequenceFailed {
  SequenceFailure failure = SequenceFailure::kDeviceFault;
  std::string message;                    // for the client: what was expected and what came
  std::optional<std::string> field = {};  // the request field at fault
};

using SequenceOutput = std::variant<Admitted, SequenceStarted, SequenceStopped, ReservationChanged, NewToken,
                                    Encoded, SequenceFailed>;

// Nothing more comes of the sequence.
bool ends_sequence(const SequenceOutput& output);

}  // namespace troupe
