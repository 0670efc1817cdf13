// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/measure_kind.hpp"

#include <array>
#include <cmath>

#include "loadgen/report/html_text.hpp"
#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

using Unit = MeasureKind::Unit;
using Better = MeasureKind::Better;

// One statistic of one latency, in seconds.
template <auto kLatency, auto kStatistic>
double seconds(const Measures& measures) {
  const LatencyStatistics& statistics = measures.latencies.*kLatency;
  const auto time = statistics.*kStatistic;
  if (statistics.count == 0 && time != kEndless) return std::nan("");
  return in_seconds(time);
}

using Latencies = PerLatency<LatencyStatistics>;
using Statistics = LatencyStatistics;

double share(double part, double whole) { return whole > 0 ? part / whole : std::nan(""); }

constexpr std::array kKinds = {
    MeasureKind{"requests", Unit::kCount, Better::kNeither,
                [](const Measures& m) { return static_cast<double>(m.num_requests); }},
    MeasureKind{"not completed", Unit::kShare, Better::kLower,
                [](const Measures& m) {
                  return share(static_cast<double>(m.num_failed()), static_cast<double>(m.num_requests));
                }},
    MeasureKind{"completed a second", Unit::kRate, Better::kHigher,
                [](const Measures& m) { return m.request_throughput; }},
    MeasureKind{"output tokens a second", Unit::kRate, Better::kHigher,
                [](const Measures& m) { return m.output_throughput; }},
    MeasureKind{"goodput, requests a second", Unit::kRate, Better::kHigher,
                [](const Measures& m) { return m.goodput; }},
    MeasureKind{"TTFT p50", Unit::kTime, Better::kLower,
                seconds<&Latencies::time_to_first_token, &Statistics::p50>},
    MeasureKind{"TTFT p99", Unit::kTime, Better::kLower,
                seconds<&Latencies::time_to_first_token, &Statistics::p99>},
    MeasureKind{"TPOT p50", Unit::kTime, Better::kLower,
                seconds<&Latencies::time_per_output_token, &Statistics::p50>},
    MeasureKind{"TPOT p99", Unit::kTime, Better::kLower,
                seconds<&Latencies::time_per_output_token, &Statistics::p99>},
    MeasureKind{"ITL p99", Unit::kTime, Better::kLower,
                seconds<&Latencies::inter_token_latency, &Statistics::p99>, true},
    MeasureKind{"normalized latency mean", Unit::kTime, Better::kLower,
                seconds<&Latencies::normalized_latency, &Statistics::mean>, true},
    MeasureKind{"normalized latency p90", Unit::kTime, Better::kLower,
                seconds<&Latencies::normalized_latency, &Statistics::p90>},
    MeasureKind{"end to end mean", Unit::kTime, Better::kLower,
                seconds<&Latencies::end_to_end, &Statistics::mean>, true},
    MeasureKind{"end to end p99", Unit::kTime, Better::kLower,
                seconds<&Latencies::end_to_end, &Statistics::p99>},
    MeasureKind{"client delay p99", Unit::kTime, Better::kNeither,
                seconds<&Latencies::client_delay, &Statistics::p99>},
    MeasureKind{"cached prompt tokens", Unit::kShare, Better::kHigher,
                [](const Measures& m) { return m.prompt_tokens > 0 ? m.cached_share() : std::nan(""); }},
    MeasureKind{"wrong answers", Unit::kShare, Better::kLower,
                [](const Measures& m) {
                  return share(static_cast<double>(m.num_wrong), static_cast<double>(m.num_checked));
                }},
};

}  // namespace

std::span<const MeasureKind> measure_kinds() { return kKinds; }

std::string measure_text(Unit unit, double value) {
  switch (unit) {
    case Unit::kCount:
    case Unit::kRate: return rounded_text(value);
    case Unit::kTime: return duration_text(value);
    case Unit::kShare: return percent_text(value);
  }
  return {};
}

}  // namespace troupe::loadgen
