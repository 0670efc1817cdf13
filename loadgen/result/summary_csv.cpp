// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/summary_csv.hpp"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

using Column = std::pair<std::string, std::string>;

std::string csv_quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string milliseconds(std::chrono::nanoseconds time) { return number(in_milliseconds(time)); }

void add_statistics(std::vector<Column>& columns, const std::string& name,
                    const LatencyStatistics& statistics) {
  columns.emplace_back("mean_" + name + "_ms", statistics.count > 0 ? milliseconds(statistics.mean) : "");
  columns.emplace_back("median_" + name + "_ms", milliseconds(statistics.p50));
  columns.emplace_back("p90_" + name + "_ms", milliseconds(statistics.p90));
  columns.emplace_back("p95_" + name + "_ms", milliseconds(statistics.p95));
  columns.emplace_back("p98_" + name + "_ms", milliseconds(statistics.p98));
  columns.emplace_back("p99_" + name + "_ms", milliseconds(statistics.p99));
  columns.emplace_back("max_" + name + "_ms", milliseconds(statistics.max));
}

// Header and lines come from the same table, so they cannot disagree.
std::vector<Column> columns_of(const RunResult& result, const Summary& summary) {
  const auto& total = summary.total;
  std::vector<Column> columns = {
      {"name", csv_quoted(result.name)},
      {"server", csv_quoted(setting(result, kServerSetting))},
      {"users", csv_quoted(setting(result, kUsersSetting))},
      {"seed", csv_quoted(setting(result, kSeedSetting))},
      {"simulated", result.is_simulated ? "1" : "0"},
      {"beyond_honest_rate", result.is_beyond_honest_rate ? "1" : "0"},
      {"request_rate", number(result.offered_rate)},
      {"duration", number(in_seconds(summary.window))},
      {"num_prompts", std::to_string(total.num_requests)},
      {"completed", std::to_string(total.num_completed)},
      {"failed", std::to_string(total.num_failed())},
      {"wrong_answers", std::to_string(total.num_wrong)},
      {"offered_rate", number(total.offered_rate)},
      {"request_throughput", number(total.request_throughput)},
      {"request_goodput", number(total.goodput)},
      {"output_throughput", number(total.output_throughput)},
      {"total_token_throughput", number(total.total_throughput)},
      {"cached_share", number(total.cached_share())},
  };
  add_statistics(columns, "ttft", total.latencies.time_to_first_token);
  add_statistics(columns, "tpot", total.latencies.time_per_output_token);
  add_statistics(columns, "itl", total.latencies.inter_token_latency);
  add_statistics(columns, "e2el", total.latencies.end_to_end);
  add_statistics(columns, "normalized_latency", total.latencies.normalized_latency);
  add_statistics(columns, "client_delay", total.latencies.client_delay);
  return columns;
}

std::string joined(const std::vector<Column>& columns, std::string Column::*part) {
  std::string line;
  for (const auto& column : columns) line += column.*part + ",";
  line.back() = '\n';
  return line;
}

}  // namespace

std::string summary_csv_header() { return joined(columns_of({}, {}), &Column::first); }

std::string summary_csv_line(const RunResult& result, const Summary& summary) {
  return joined(columns_of(result, summary), &Column::second);
}

}  // namespace troupe::loadgen
