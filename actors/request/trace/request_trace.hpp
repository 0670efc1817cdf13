// SPDX-License-Identifier: Apache-2.0
// The events of one request, with their times. From it come the timings its client
// gets, the spans of its trace and its line in the log. Kept by the request's
// actor alone; others tell it in messages.
//
//   [encode] ─► queue ─► admit ─► [load ─► admit] ─► prefill ─► decode ─► end
//                 ▲                                     │          │
//                 └───────────── [suspended] ◄──────────┴──────────┘
//                                preempted, worker lost, not read
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/messages.hpp"
#include "actors/request/generation_request.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

enum class RequestPhase : std::uint8_t {
  kNone,  // being read, or between actors
  kEncode,
  kQueue,
  kAdmit,  // from the first asking for pages to having them
  kLoad,   // of that, waiting for what only the disk had
  kPrefill,
  kDecode,
  kSuspended,
};

// One stay in a phase. A request that loses its pages goes through queue, admit
// and prefill again: the next run.
struct PhaseRecord {
  using TimePoint = std::chrono::steady_clock::time_point;
  RequestPhase phase = RequestPhase::kNone;
  std::uint32_t run = 1;
  TimePoint start, end;
  // Prefill and decode have these: the begin of their run, and the phase's batches.
  SequenceStarted started;
  BatchTally batches;
};

struct EventRecord {
  std::string_view name;
  std::chrono::steady_clock::time_point time;
  // A changed reservation's: tokens of its answer, and the outcome of an overrun (else empty).
  std::optional<std::uint32_t> reserved_tokens = {};
  std::string_view outcome = {};
};

struct RequestOutcome {
  FinishReason reason = FinishReason::kStop;
  std::optional<ApiError> error;  // kError: why
  Usage usage;
};

class RequestTrace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // tracer: may be null; outlives this. Without one only times are kept.
  RequestTrace(std::shared_ptr<const GenerationRequest> request, Tracer* tracer, TimePoint arrived);

  void begin_encoding(TimePoint now) { enter(RequestPhase::kEncode, now); }
  void begin_waiting(TimePoint now) { enter(RequestPhase::kQueue, now); }
  void take_started(const SequenceStarted& message);
  void take_stopped(const SequenceStopped& message);
  void take_reservation(const ReservationChanged& message);
  // batches: of the sequence, so far.
  void take_token(TimePoint now, const BatchTally& batches) {
    batches_ = batches;
    if (phase_ == RequestPhase::kDecode) {
      timings_.decoded_tokens += 1;
    } else {
      begin_decoding(now);
    }
  }
  // Text of the answer: kept where the tracer captures contents, up to a bound.
  void take_text(std::string_view text);
  // All is generated; what follows belongs to no phase.
  void begin_saving(TimePoint now) { enter(RequestPhase::kNone, now); }
  void mark_accepted() { is_accepted_ = true; }
  // Nothing may follow but reading.
  void end(TimePoint now, RequestOutcome outcome);

  const GenerationRequest& request() const { return *request_; }
  const TraceContext& context() const { return context_; }
  Tracer* tracer() const { return tracer_; }
  TimePoint received() const { return received_; }
  std::optional<TimePoint> first_token() const { return first_token_; }
  bool is_accepted() const { return is_accepted_; }
  bool has_ended() const { return ended_.has_value(); }

  // After end().
  TimePoint ended() const { return *ended_; }
  const RequestTimings& timings() const { return timings_; }
  const RequestOutcome& outcome() const { return outcome_; }
  const std::vector<PhaseRecord>& phases() const { return phases_; }
  const std::vector<EventRecord>& events() const { return events_; }
  std::uint32_t num_dropped_events() const { return num_dropped_events_; }
  const std::string& answer() const { return answer_; }

 private:
  void enter(RequestPhase phase, TimePoint time);
  void begin_decoding(TimePoint now);
  void note(EventRecord event);

  std::shared_ptr<const GenerationRequest> request_;
  Tracer* tracer_;
  TraceContext context_;
  TimePoint received_;

  RequestPhase phase_ = RequestPhase::kNone;
  TimePoint phase_start_;
  std::uint32_t run_ = 1;
  SequenceStarted started_;
  BatchTally batches_, phase_start_batches_;
  std::optional<StopReason> stopped_;  // why it is not running, once it was
  bool is_accepted_ = false;
  std::optional<TimePoint> first_token_, ended_;
  RequestTimings timings_;
  RequestOutcome outcome_;
  std::vector<PhaseRecord> phases_;  // empty without a tracer
  std::vector<EventRecord> events_;
  std::uint32_t num_dropped_events_ = 0;
  std::string answer_;
};

// The status the client got, as far as the engine knows: nothing if it left
// before there was one.
std::optional<unsigned> http_status_of(const RequestTrace& trace);
// "overloaded", "cancelled" …; empty if it ended well.
std::string_view error_type_of(const RequestTrace& trace);
// The server's failure, or a client that gave up: not what a client did wrong.
bool has_failed(const RequestTrace& trace);

// After end(): a root and its phases.
std::vector<Span> request_spans(const RequestTrace& trace, std::string_view model);
// Records them: for export if the trace is sampled, or has failed, or was slow.
void record_request(const RequestTrace& trace, std::string_view model);

// After end(): one line of the log. A request that failed is a warning; one that ended well, was refused or
// cancelled is of level debug, or info if is_wanted. Ids, counts and times: nothing of what was asked or
// answered.
void log_request(const RequestTrace& trace, bool is_wanted);

}  // namespace troupe
