// SPDX-License-Identifier: Apache-2.0
// The terminal's side of summary.hpp.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

#include "loadgen/result/summary.hpp"
#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

// Four significant digits up to 9999, whole numbers beyond.
std::string short_number(double value) {
  std::array<char, 32> text{};
  const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

void print_statistics(std::ostream& out, const char* name, const LatencyStatistics& statistics) {
  if (statistics.count == 0 && statistics.max != kEndless) return;
  std::array<char, 24> label{};
  std::snprintf(label.data(), label.size(), "  %-18s", name);
  out << label.data();
  out << padded(statistics.count > 0 ? short_number(in_milliseconds(statistics.mean)) : "-", 8);
  for (const auto time :
       {statistics.p50, statistics.p90, statistics.p95, statistics.p98, statistics.p99, statistics.max})
    out << padded(short_number(in_milliseconds(time)), 8);
  out << '\n';
}

void print_latencies(std::ostream& out, const PerLatency<LatencyStatistics>& latencies) {
  out << "  milliseconds          mean     p50     p90     p95     p98     p99     max\n";
  print_statistics(out, "first token", latencies.time_to_first_token);
  print_statistics(out, "per output token", latencies.time_per_output_token);
  print_statistics(out, "inter token", latencies.inter_token_latency);
  print_statistics(out, "normalized", latencies.normalized_latency);
  print_statistics(out, "end to end", latencies.end_to_end);
  print_statistics(out, "client delay", latencies.client_delay);
  print_statistics(out, "server queue", latencies.server_queue);
}

void print_counts(std::ostream& out, const Measures& measures) {
  out << "  requests  " << measures.num_requests << " measured, " << measures.num_completed << " completed";
  for (std::size_t i = 0; i < kNumOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (outcome != Outcome::kCompleted && measures.num_by_outcome[i] > 0)
      out << ", " << measures.num_by_outcome[i] << ' ' << outcome_name(outcome);
  }
  out << "\n  a second  " << short_number(measures.offered_rate) << " offered, "
      << short_number(measures.request_throughput) << " completed, " << short_number(measures.goodput)
      << " good; " << short_number(measures.output_throughput) << " output tokens, "
      << short_number(measures.total_throughput) << " in all\n";
  if (measures.cached_tokens > 0)
    out << "  cached    " << short_number(100 * measures.cached_share()) << " % of prompt tokens\n";
  if (measures.num_checked > 0)
    out << "  answers   " << measures.num_wrong << " wrong of " << measures.num_checked << " checked\n";
}

}  // namespace

void print_summary(std::ostream& out, const RunResult& result, const Summary& summary) {
  out << (result.name.empty() ? "run" : result.name) << (result.is_simulated ? " (simulated)" : "") << ", "
      << short_number(in_seconds(summary.window)) << " s measured\n";
  print_counts(out, summary.total);
  print_latencies(out, summary.total.latencies);
  if (summary.classes.size() > 1) {
    for (const auto& measures : summary.classes) {
      out << measures.name << '\n';
      print_counts(out, measures);
      print_latencies(out, measures.latencies);
    }
  }
  if (result.is_beyond_honest_rate)
    out << "  ! the generator could not keep up: these figures say more of it than of the server\n";
  for (const auto& warning : result.warnings) out << "  ! " << warning << '\n';
}

}  // namespace troupe::loadgen
