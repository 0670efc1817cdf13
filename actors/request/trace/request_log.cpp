// SPDX-License-Identifier: Apache-2.0
// The line of the log for a request that has ended.
#include <string>

#include "actors/request/trace/request_trace.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string_view ending_of(const RequestTrace& trace) {
  const std::string_view error = error_type_of(trace);
  if (!error.empty()) return error;
  return trace.outcome().reason == FinishReason::kLength ? "length" : "stop";
}

}  // namespace

void log_request(const RequestTrace& trace, bool is_wanted) {
  const bool is_failure = has_failed(trace) && trace.outcome().reason != FinishReason::kCancelled;
  const LogLevel level = is_failure ? LogLevel::kWarning : is_wanted ? LogLevel::kInfo : LogLevel::kDebug;
  if (!is_logged(level)) return;
  const GenerationRequest& request = trace.request();
  const Usage& usage = trace.outcome().usage;
  const RequestTimings& timings = trace.timings();
  const auto first = trace.first_token();
  const bool has_trace = trace.context().is_valid();
  // Of a failure the text is ours; of a refusal it may quote the client.
  const std::string reason = is_failure && trace.outcome().error ? trace.outcome().error->message : "";
  log(level, is_failure ? "request failed" : "request finished",
      {{"request_id", request.origin.request_id},
       {"trace_id", has_trace ? hex_of(trace.context().trace) : ""},
       {"span_id", has_trace ? hex_of(trace.context().span) : ""},
       {"id", request.id},
       {"end", ending_of(trace)},
       {"prompt_tokens", usage.prompt_tokens},
       {"cached_tokens", usage.cached_tokens},
       {"completion_tokens", usage.completion_tokens},
       {"queue_ms", milliseconds(timings.queue)},
       {"first_token_ms", first ? milliseconds(*first - trace.received()) : 0.0},
       {"load_ms", milliseconds(timings.load)},
       {"prefill_ms", milliseconds(timings.prefill)},
       {"decode_ms", milliseconds(timings.decode)},
       {"total_ms", milliseconds(timings.total)},
       {"reason", reason}});
}

}  // namespace troupe
