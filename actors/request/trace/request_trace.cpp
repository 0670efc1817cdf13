// SPDX-License-Identifier: Apache-2.0
#include "actors/request/trace/request_trace.hpp"

#include <algorithm>
#include <utility>

#include "actors/request/trace/captured_content.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

// A request that is preempted again and again keeps no more than this.
constexpr std::size_t kMaxPhases = 128;
constexpr std::size_t kMaxEvents = 64;

std::string_view event_of(StopReason reason) {
  switch (reason) {
    case StopReason::kPreempted: return semconv::kPreemptedEvent;
    case StopReason::kPaused: return semconv::kSuspendedEvent;
    case StopReason::kContextLost: return semconv::kContextLostEvent;
    case StopReason::kWorkerLost: break;
  }
  return semconv::kWorkerLostEvent;
}

std::chrono::nanoseconds* time_of(RequestTimings& timings, RequestPhase phase) {
  switch (phase) {
    case RequestPhase::kEncode: return &timings.encode;
    case RequestPhase::kQueue:
    case RequestPhase::kAdmit: return &timings.queue;
    case RequestPhase::kLoad: return &timings.load;
    case RequestPhase::kPrefill: return &timings.prefill;
    case RequestPhase::kDecode: return &timings.decode;
    case RequestPhase::kSuspended: return &timings.suspended;
    case RequestPhase::kNone: break;
  }
  return nullptr;
}

// The caller's if it sent one; a trace of our own else.
TraceContext context_of(const GenerationRequest& request, Tracer* tracer) {
  if (request.origin.trace.is_valid() || tracer == nullptr) return request.origin.trace;
  return tracer->next_root();
}

}  // namespace

RequestTrace::RequestTrace(std::shared_ptr<const GenerationRequest> request, Tracer* tracer,
                           TimePoint arrived)
    : request_(std::move(request)),
      tracer_(tracer),
      context_(context_of(*request_, tracer)),
      received_(request_->origin.received == TimePoint{} ? arrived : request_->origin.received),
      phase_start_(arrived) {}

void RequestTrace::take_started(const SequenceStarted& message) {
  if (phase_ == RequestPhase::kSuspended) enter(RequestPhase::kQueue, message.queued);
  if (stopped_) {
    run_ += 1;
    const bool was_lost = *stopped_ == StopReason::kWorkerLost;
    note({.name = was_lost ? semconv::kRestartedEvent : semconv::kResumedEvent, .time = message.started});
    stopped_.reset();
  }
  enter(RequestPhase::kAdmit, message.asked);
  if (message.loaded != TimePoint{}) {
    enter(RequestPhase::kLoad, message.load_began);
    enter(RequestPhase::kAdmit, message.loaded);
  }
  started_ = message;
  timings_.sources.device += message.sources.device;
  timings_.sources.host += message.sources.host;
  timings_.sources.disk += message.sources.disk;
  timings_.sources.recomputed += message.sources.recomputed;
  enter(RequestPhase::kPrefill, message.started);
}

void RequestTrace::take_stopped(const SequenceStopped& message) {
  stopped_ = message.reason;
  note({.name = event_of(message.reason), .time = message.time});
  enter(message.is_paused ? RequestPhase::kSuspended : RequestPhase::kQueue, message.time);
}

void RequestTrace::take_reservation(const ReservationChanged& message) {
  using Cause = ReservationChanged::Cause;
  const bool is_forecast = message.cause == Cause::kForecast || message.cause == Cause::kRefined ||
                           message.cause == Cause::kShrunk;
  note({.name = is_forecast ? semconv::kPredictEvent : semconv::kOverrunEvent,
        .time = message.time,
        .reserved_tokens = message.num_tokens,
        .outcome = is_forecast                      ? std::string_view()
                   : message.cause == Cause::kGrown ? semconv::kGrown
                                                    : semconv::kGaveWay});
}

void RequestTrace::begin_decoding(TimePoint now) {
  enter(RequestPhase::kDecode, now);
  if (first_token_) return;
  first_token_ = now;
  note({.name = semconv::kFirstTokenEvent, .time = now});
}

void RequestTrace::take_text(std::string_view text) {
  if (tracer_ == nullptr || !tracer_->content_capture().is_on()) return;
  answer_ += text.substr(0, kMaxCapturedBytes - std::min(answer_.size(), kMaxCapturedBytes));
}

void RequestTrace::end(TimePoint now, RequestOutcome outcome) {
  enter(RequestPhase::kNone, now);
  outcome_ = std::move(outcome);
  ended_ = now;
  timings_.total = now - received_;
}

void RequestTrace::enter(RequestPhase phase, TimePoint time) {
  time = std::max(time, phase_start_);
  if (auto* spent = time_of(timings_, phase_)) {
    *spent += time - phase_start_;
    if (tracer_ && phases_.size() < kMaxPhases)
      phases_.push_back({.phase = phase_,
                         .run = run_,
                         .start = phase_start_,
                         .end = time,
                         .started = started_,
                         .batches = batches_ - phase_start_batches_});
  }
  phase_ = phase;
  phase_start_ = time;
  phase_start_batches_ = batches_;
}

void RequestTrace::note(EventRecord event) {
  if (tracer_ == nullptr) return;
  if (events_.size() < kMaxEvents) {
    events_.push_back(event);
  } else {
    num_dropped_events_ += 1;
  }
}

}  // namespace troupe
