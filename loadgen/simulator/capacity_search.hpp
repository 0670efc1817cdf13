// SPDX-License-Identifier: Apache-2.0
// "How many workers for this traffic under this objective?", by simulation:
// doubles the number until the objective is met, then halves the interval.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

// "ttft_p99=500ms": this figure of this latency must be at most so much.
struct PercentileObjective {
  enum class Latency : std::uint8_t { kTtft, kTpot, kItl, kEndToEnd };
  enum class Figure : std::uint8_t { kMean, kP50, kP90, kP95, kP98, kP99 };

  Latency latency = Latency::kTtft;
  Figure figure = Figure::kP99;
  std::chrono::nanoseconds limit{0};
  std::string text;  // "ttft_p99"

  const LatencyStatistics& statistics(const Measures& measures) const;
  std::chrono::nanoseconds measured(const Measures& measures) const;
};

// "ttft_p99=500ms,tpot_p99=50ms"; units: us, ms, s. Throws std::runtime_error.
std::vector<PercentileObjective> parse_objectives(std::string_view text);

struct CapacityTrial {
  std::uint32_t num_workers = 0;
  // One an objective: the median over seeds; nullopt: one of them completed nothing that has it.
  std::vector<std::optional<std::chrono::nanoseconds>> measured;
  double completed_share = 0;  // the least over seeds; of what can be served at all
  double rejected_share = 0;   // the most over seeds: longer than a sequence may be
  bool is_met = false;
};

struct CapacityAnswer {
  std::optional<CapacityTrial> fewest;  // nullopt: not even max_workers
  CapacityTrial one_less;               // num_workers 0: one worker is enough
};

// try_workers(n): simulates all seeds with n workers. An objective is met if
// it was measured, all its measures are within their limits and every request was completed but
// those that no number of workers could serve.
// That more workers never do worse is taken for granted.
CapacityAnswer find_fewest_workers(const std::function<CapacityTrial(std::uint32_t)>& try_workers,
                                   std::uint32_t max_workers);

CapacityTrial judge(std::uint32_t num_workers, const std::vector<PercentileObjective>& objectives,
                    const std::vector<Summary>& by_seed);

}  // namespace troupe::loadgen
