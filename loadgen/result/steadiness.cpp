// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/steadiness.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {
namespace {

constexpr double kFirstShare = 0.25;
constexpr std::size_t kFewest = 20;          // requests on either side
constexpr double kLeastDifference = 0.0953;  // of logarithms: a tenth
constexpr double kBeyondChance = 3.29;       // standard errors: once in a thousand

struct Sample {
  std::vector<double> values;

  double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  // Of the mean, squared.
  double squared_error() const {
    const double centre = mean();
    double squares = 0;
    for (const double value : values) squares += (value - centre) * (value - centre);
    const auto count = static_cast<double>(values.size());
    return squares / (count - 1) / count;
  }
};

}  // namespace

std::string unsteadiness(const RunResult& result) {
  const auto window = measured_window(result);
  const auto boundary = window.from + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                          kFirstShare * static_cast<double>(window.length().count())));
  Sample first, rest;
  for (const RequestRecord& record : result.records) {
    if (record.outcome != Outcome::kCompleted || !window.contains(record.intended)) continue;
    const auto time = record.output_tokens > 0 ? record.normalized_latency() : record.end_to_end();
    if (time.count() <= 0) continue;
    (record.intended < boundary ? first : rest).values.push_back(std::log(static_cast<double>(time.count())));
  }
  if (first.values.size() < kFewest || rest.values.size() < kFewest) return {};
  const double difference = rest.mean() - first.mean();
  const double error = std::sqrt(first.squared_error() + rest.squared_error());
  if (std::abs(difference) < kLeastDifference || std::abs(difference) < kBeyondChance * error) return {};
  char text[200];
  std::snprintf(text, sizeof text,
                "not steady: requests of the window's first quarter took %.0f %% of the time of those behind "
                "them; a longer --warmup, or a server that keeps up, would tell more",
                100 * std::exp(-difference));
  return text;
}

}  // namespace troupe::loadgen
