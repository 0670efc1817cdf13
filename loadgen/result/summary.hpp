// SPDX-License-Identifier: Apache-2.0
// The figures of one run, per class and in total: what the terminal's table,
// results.json and the report say. Definitions are those of vLLM's benchmark
// where it has one.
//
// Which requests: those *intended* within the measured window; the rest ran to
// bring the server into its usual state. Latencies count from the intended send
// time. Percentiles are nearest-rank, wrong by at most 0.05 %. One that was not
// completed, for whatever reason, counts in the percentiles of its latencies as
// longer than any other (kEndless), unless the run says otherwise
// (kPercentilesSetting): a server that refuses what it can't do in time is not fast. One
// that its client cancelled, as planned, is in no latency.
// Means are of the completed ones; Measures says how many were not.
//
// Rates count what *happened* within the window, whichever requests it belongs
// to: a completion when it is over, a prompt's tokens with the first token of
// its answer, an answer's tokens when their chunk arrives (its tokens spread
// evenly over its chunks; over the time from first to last token where gaps are
// unknown). Counting the requests that were sent within it instead would show
// an overloaded server at the offered rate, and counting whole answers as they
// end would favour or punish long ones by chance. Tokens of answers that failed
// later are counted: they were delivered.
//
// Goodput is of the requests intended within the window: what share of traffic,
// once offered, was served as promised.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/result/latency_histogram.hpp"
#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

struct LatencyStatistics {
  using Duration = std::chrono::nanoseconds;

  std::uint64_t count = 0;  // of the completed
  Duration mean{0}, standard_deviation{0};
  Duration p50{0}, p90{0}, p95{0}, p98{0}, p99{0}, max{0};  // kEndless: not completed
};

// One value for each kind of latency.
template <class T>
struct PerLatency {
  T time_to_first_token;    // to the first chunk with text
  T time_per_output_token;  // first to last token, by output tokens - 1; none for one token
  T inter_token_latency;    // every gap between chunks of every answer
  T normalized_latency;     // end to end by output tokens
  T end_to_end;
  T client_delay;  // sent - intended: of all that were sent, not only the completed
  T server_queue;  // where the server says it
};

struct Measures {
  std::string name;                 // the class, or "total"
  std::uint64_t num_requests = 0;   // intended within the window
  std::uint64_t num_completed = 0;  // of these
  std::array<std::uint64_t, kNumOutcomes> num_by_outcome{};
  std::uint64_t num_good = 0;     // completed, and all objectives of the class met
  std::uint64_t num_checked = 0;  // completed, with a known right answer
  std::uint64_t num_wrong = 0;
  // Sums over completed requests:
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;

  double offered_rate = 0;        // requests a second that were intended
  double request_throughput = 0;  // requests a second that completed
  double output_throughput = 0;   // tokens a second
  double total_throughput = 0;    // prompt and output tokens a second
  double goodput = 0;             // num_good a second

  PerLatency<LatencyStatistics> latencies;

  std::uint64_t num_cancelled() const {
    return num_by_outcome[static_cast<std::size_t>(Outcome::kCancelled)];
  }
  std::uint64_t num_failed() const { return num_requests - num_completed - num_cancelled(); }
  double cached_share() const;  // of prompt tokens; 0 where there are none
  double good_share() const;    // of requests that were not cancelled; 0 where there are none
};

struct Summary {
  std::chrono::nanoseconds window{0};  // its length
  Measures total;
  std::vector<Measures> classes;  // as in the run
};

// Where measured_until is not after measured_from, the whole run is measured.
struct MeasuredWindow {
  std::chrono::nanoseconds from{0};
  std::chrono::nanoseconds until{0};

  bool contains(std::chrono::nanoseconds time) const { return time >= from && time < until; }
  std::chrono::nanoseconds length() const { return until - from; }
};
MeasuredWindow measured_window(const RunResult& result);

// Objectives of zero are none. A one-token answer has met its time per output
// token, an answer without text has not met its time to first token.
bool meets_objectives(const RequestRecord& record, const Objectives& objectives);

// Output tokens of this answer that arrived within the window.
double tokens_delivered(const RequestRecord& record, const MeasuredWindow& window);

// The latencies of what the window holds, of one class or (nullopt) of all; to
// be merged over runs or drawn as curves.
PerLatency<LatencyHistogram> collect_latencies(const RunResult& result,
                                               std::optional<std::uint32_t> request_class);

// Records whose class is not among result.classes count in the total only.
Summary summarize(const RunResult& result);

// The final table for a terminal, 80 columns, with the run's warnings.
void print_summary(std::ostream& out, const RunResult& result, const Summary& summary);

}  // namespace troupe::loadgen
