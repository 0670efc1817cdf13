// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/summary.hpp"

#include <algorithm>
#include <map>

#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

using Duration = std::chrono::nanoseconds;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

bool is_counted(const RequestRecord& record, const MeasuredWindow& window,
                std::optional<std::uint32_t> request_class) {
  return window.contains(record.intended) && (!request_class || record.request_class == *request_class);
}

// Latencies that requests of a class can have: what its completed ones had, since vectors have
// no tokens, and single tokens no time between them; all where none was completed.
struct Possible {
  bool has_completed = false, has_text = false, has_tokens = false, has_gaps = false;

  void note(const RequestRecord& record) {
    has_completed = true;
    has_text = has_text || record.first_token > Duration(0);
    has_tokens = has_tokens || record.output_tokens > 0;
    has_gaps = has_gaps || record.output_tokens > 1;
  }
};

std::map<std::uint32_t, Possible> possible_by_class(const RunResult& result) {
  std::map<std::uint32_t, Possible> possible;
  for (const auto& record : result.records)
    if (record.outcome == Outcome::kCompleted) possible[record.request_class].note(record);
  return possible;
}

void collect_unanswered(PerLatency<LatencyHistogram>& latencies, const Possible& possible) {
  const bool is_any = !possible.has_completed;
  latencies.end_to_end.record_endless();
  if (is_any || possible.has_text) latencies.time_to_first_token.record_endless();
  if (is_any || possible.has_tokens) latencies.normalized_latency.record_endless();
  if (is_any || possible.has_gaps) latencies.time_per_output_token.record_endless();
}

void collect(PerLatency<LatencyHistogram>& latencies, const RequestRecord& record) {
  if (record.sent >= record.intended) latencies.client_delay.record(record.client_delay());
  if (record.outcome != Outcome::kCompleted) return;
  latencies.end_to_end.record(record.end_to_end());
  if (record.server_queue) latencies.server_queue.record(*record.server_queue);
  if (record.first_token > Duration(0)) latencies.time_to_first_token.record(record.time_to_first_token());
  if (record.output_tokens > 0) latencies.normalized_latency.record(record.normalized_latency());
  if (record.output_tokens > 1) latencies.time_per_output_token.record(record.time_per_output_token());
  for (const auto gap : record.gaps_us) latencies.inter_token_latency.record(std::chrono::microseconds(gap));
}

LatencyStatistics statistics_of(const LatencyHistogram& histogram) {
  return {.count = histogram.count(),
          .mean = histogram.mean(),
          .standard_deviation = histogram.standard_deviation(),
          .p50 = histogram.percentile(50),
          .p90 = histogram.percentile(90),
          .p95 = histogram.percentile(95),
          .p98 = histogram.percentile(98),
          .p99 = histogram.percentile(99),
          .max = histogram.num_endless() > 0 ? kEndless : histogram.maximum()};
}

PerLatency<LatencyStatistics> statistics_of_each(const PerLatency<LatencyHistogram>& latencies) {
  return {.time_to_first_token = statistics_of(latencies.time_to_first_token),
          .time_per_output_token = statistics_of(latencies.time_per_output_token),
          .inter_token_latency = statistics_of(latencies.inter_token_latency),
          .normalized_latency = statistics_of(latencies.normalized_latency),
          .end_to_end = statistics_of(latencies.end_to_end),
          .client_delay = statistics_of(latencies.client_delay),
          .server_queue = statistics_of(latencies.server_queue)};
}

void count(Measures& measures, const RequestRecord& record, const Objectives& objectives) {
  ++measures.num_requests;
  ++measures.num_by_outcome[static_cast<std::size_t>(record.outcome)];
  if (record.outcome != Outcome::kCompleted) return;
  ++measures.num_completed;
  if (meets_objectives(record, objectives)) ++measures.num_good;
  if (record.is_correct) ++measures.num_checked;
  if (record.is_correct == false) ++measures.num_wrong;
  measures.prompt_tokens += record.prompt_tokens;
  measures.cached_tokens += record.cached_tokens;
  measures.output_tokens += record.output_tokens;
}

void count_rates(Measures& measures, const RequestRecord& record, const MeasuredWindow& window) {
  const double output = tokens_delivered(record, window);
  const bool is_prompt_read = record.first_token > Duration(0) && window.contains(record.first_token);
  if (record.outcome == Outcome::kCompleted && window.contains(record.finished))
    ++measures.request_throughput;
  measures.output_throughput += output;
  measures.total_throughput += output + (is_prompt_read ? record.prompt_tokens : 0);
}

// Counts become counts a second.
void finish_rates(Measures& measures, double seconds) {
  measures.offered_rate = ratio(static_cast<double>(measures.num_requests), seconds);
  measures.goodput = ratio(static_cast<double>(measures.num_good), seconds);
  for (auto* rate : {&measures.request_throughput, &measures.output_throughput, &measures.total_throughput})
    *rate = ratio(*rate, seconds);
}

Measures measure(const RunResult& result, std::optional<std::uint32_t> request_class) {
  const auto window = measured_window(result);
  Measures measures;
  measures.name = request_class ? result.classes[*request_class].name : "total";
  for (const auto& record : result.records) {
    if (request_class && record.request_class != *request_class) continue;
    count_rates(measures, record, window);
    if (!window.contains(record.intended)) continue;
    const bool is_known = record.request_class < result.classes.size();
    count(measures, record, is_known ? result.classes[record.request_class].objectives : Objectives{});
  }
  finish_rates(measures, in_seconds(window.length()));
  measures.latencies = statistics_of_each(collect_latencies(result, request_class));
  return measures;
}

}  // namespace

double Measures::cached_share() const {
  return ratio(static_cast<double>(cached_tokens), static_cast<double>(prompt_tokens));
}

double Measures::good_share() const {
  return ratio(static_cast<double>(num_good), static_cast<double>(num_requests - num_cancelled()));
}

MeasuredWindow measured_window(const RunResult& result) {
  if (result.measured_until > result.measured_from) return {result.measured_from, result.measured_until};
  // The last event itself belongs to the run.
  return {Duration(0), result.duration + Duration(1)};
}

bool meets_objectives(const RequestRecord& record, const Objectives& objectives) {
  if (record.outcome != Outcome::kCompleted) return false;
  const auto is_met = [](Duration time, Duration objective) {
    return objective <= Duration(0) || time <= objective;
  };
  const bool has_text = record.first_token > Duration(0);
  return (objectives.time_to_first_token <= Duration(0) || has_text) &&
         is_met(record.time_to_first_token(), objectives.time_to_first_token) &&
         is_met(record.time_per_output_token(), objectives.time_per_output_token) &&
         is_met(record.end_to_end(), objectives.end_to_end);
}

double tokens_delivered(const RequestRecord& record, const MeasuredWindow& window) {
  if (record.first_token <= Duration(0) || record.output_tokens == 0) return 0;
  const double tokens = record.output_tokens;
  if (record.gaps_us.empty() && record.last_token > record.first_token) {
    const double first = window.contains(record.first_token) ? 1 : 0;
    const auto overlap =
        std::min(record.last_token, window.until) - std::max(record.first_token, window.from);
    return first + (tokens - 1) * ratio(in_seconds(std::max(overlap, Duration(0))),
                                        in_seconds(record.last_token - record.first_token));
  }
  auto time = record.first_token;
  std::size_t num_inside = window.contains(time) ? 1 : 0;
  for (const auto gap : record.gaps_us) {
    time += std::chrono::microseconds(gap);
    if (window.contains(time)) ++num_inside;
  }
  return tokens * static_cast<double>(num_inside) / static_cast<double>(record.gaps_us.size() + 1);
}

PerLatency<LatencyHistogram> collect_latencies(const RunResult& result,
                                               std::optional<std::uint32_t> request_class) {
  const auto window = measured_window(result);
  const bool counts_all = setting(result, kPercentilesSetting) != kOfCompleted;
  auto possible = possible_by_class(result);
  PerLatency<LatencyHistogram> latencies;
  for (const auto& record : result.records) {
    if (!is_counted(record, window, request_class)) continue;
    collect(latencies, record);
    const bool has_failed = record.outcome != Outcome::kCompleted && record.outcome != Outcome::kCancelled;
    if (counts_all && has_failed) collect_unanswered(latencies, possible[record.request_class]);
  }
  return latencies;
}

Summary summarize(const RunResult& result) {
  Summary summary;
  summary.window = measured_window(result).length();
  summary.total = measure(result, std::nullopt);
  for (std::uint32_t i = 0; i < result.classes.size(); ++i) summary.classes.push_back(measure(result, i));
  return summary;
}

}  // namespace troupe::loadgen
