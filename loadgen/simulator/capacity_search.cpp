// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/capacity_search.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace troupe::loadgen {
namespace {

using Latency = PercentileObjective::Latency;
using Figure = PercentileObjective::Figure;

constexpr std::array<std::pair<std::string_view, Latency>, 4> kLatencies = {{{"ttft", Latency::kTtft},
                                                                             {"tpot", Latency::kTpot},
                                                                             {"itl", Latency::kItl},
                                                                             {"e2e", Latency::kEndToEnd}}};
constexpr std::array<std::pair<std::string_view, Figure>, 6> kFigures = {{{"mean", Figure::kMean},
                                                                          {"p50", Figure::kP50},
                                                                          {"p90", Figure::kP90},
                                                                          {"p95", Figure::kP95},
                                                                          {"p98", Figure::kP98},
                                                                          {"p99", Figure::kP99}}};
constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {
    {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

[[noreturn]] void refuse(std::string_view text) {
  throw std::runtime_error(
      "objective: expected ttft, tpot, itl or e2e, _mean, _p50, _p90, _p95, _p98 or _p99, "
      "and a time above 0, as in ttft_p99=500ms,tpot_p99=50ms; got '" +
      std::string(text) + "'");
}

template <typename Table>
auto find_in(const Table& table, std::string_view name, std::string_view whole) {
  for (const auto& [known, value] : table)
    if (known == name) return value;
  refuse(whole);
}

std::chrono::nanoseconds parse_time(std::string_view text, std::string_view whole) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number <= 0) refuse(whole);
  const auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return std::chrono::nanoseconds(std::llround(number * find_in(kUnits, unit, whole)));
}

PercentileObjective parse_objective(std::string_view text) {
  const auto equals = text.find('=');
  const auto underscore = text.substr(0, equals).rfind('_');
  if (equals == std::string_view::npos || underscore == std::string_view::npos) refuse(text);
  const auto figure = text.substr(underscore + 1, equals - underscore - 1);
  return {.latency = find_in(kLatencies, text.substr(0, underscore), text),
          .figure = find_in(kFigures, figure, text),
          .limit = parse_time(text.substr(equals + 1), text),
          .text = std::string(text.substr(0, equals))};
}

double share(std::uint64_t part, std::uint64_t whole, double of_nothing) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : of_nothing;
}

// nullopt: of one of them nothing was measured.
std::optional<std::chrono::nanoseconds> median_of(const PercentileObjective& objective,
                                                  const std::vector<Summary>& by_seed) {
  std::vector<std::chrono::nanoseconds> measured;
  for (const Summary& summary : by_seed) {
    if (objective.statistics(summary.total).count == 0) return std::nullopt;
    measured.push_back(objective.measured(summary.total));
  }
  if (measured.empty()) return std::nullopt;
  std::sort(measured.begin(), measured.end());
  return measured[measured.size() / 2];
}

}  // namespace

const LatencyStatistics& PercentileObjective::statistics(const Measures& measures) const {
  switch (latency) {
    case Latency::kTtft: return measures.latencies.time_to_first_token;
    case Latency::kTpot: return measures.latencies.time_per_output_token;
    case Latency::kItl: return measures.latencies.inter_token_latency;
    case Latency::kEndToEnd: break;
  }
  return measures.latencies.end_to_end;
}

std::chrono::nanoseconds PercentileObjective::measured(const Measures& measures) const {
  const auto& found = statistics(measures);
  switch (figure) {
    case Figure::kMean: return found.mean;
    case Figure::kP50: return found.p50;
    case Figure::kP90: return found.p90;
    case Figure::kP95: return found.p95;
    case Figure::kP98: return found.p98;
    case Figure::kP99: return found.p99;
  }
  return {};
}

std::vector<PercentileObjective> parse_objectives(std::string_view text) {
  std::vector<PercentileObjective> objectives;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    objectives.push_back(parse_objective(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return objectives;
}

CapacityTrial judge(std::uint32_t num_workers, const std::vector<PercentileObjective>& objectives,
                    const std::vector<Summary>& by_seed) {
  CapacityTrial trial{
      .num_workers = num_workers, .measured = {}, .completed_share = 1, .rejected_share = 0, .is_met = true};
  for (const Summary& summary : by_seed) {
    const std::uint64_t num_requests = summary.total.num_requests;
    const std::uint64_t num_rejected =
        summary.total.num_by_outcome[static_cast<std::size_t>(Outcome::kRejected)];
    trial.rejected_share = std::max(trial.rejected_share, share(num_rejected, num_requests, 0));
    const std::uint64_t num_left = num_requests - num_rejected - summary.total.num_cancelled();
    trial.completed_share = std::min(trial.completed_share, share(summary.total.num_completed, num_left, 1));
  }
  for (const auto& objective : objectives) {
    trial.measured.push_back(median_of(objective, by_seed));
    if (!trial.measured.back() || *trial.measured.back() > objective.limit) trial.is_met = false;
  }
  if (trial.completed_share < 1) trial.is_met = false;
  return trial;
}

CapacityAnswer find_fewest_workers(const std::function<CapacityTrial(std::uint32_t)>& try_workers,
                                   std::uint32_t max_workers) {
  CapacityAnswer answer;
  std::uint32_t too_few = 0;
  for (std::uint32_t n = 1; !answer.fewest; n = std::min(2 * n, max_workers)) {
    auto trial = try_workers(n);
    if (trial.is_met) {
      answer.fewest = std::move(trial);
    } else {
      too_few = n;
      answer.one_less = std::move(trial);
      if (n == max_workers) return answer;
    }
  }
  while (answer.fewest->num_workers - too_few > 1) {
    auto trial = try_workers(too_few + (answer.fewest->num_workers - too_few) / 2);
    if (trial.is_met) {
      answer.fewest = std::move(trial);
    } else {
      too_few = trial.num_workers;
      answer.one_less = std::move(trial);
    }
  }
  return answer;
}

}  // namespace troupe::loadgen
