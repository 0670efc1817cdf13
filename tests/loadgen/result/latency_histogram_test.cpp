// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/latency_histogram.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace troupe::loadgen {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

constexpr double kLargestError = 0.0005;

// Log-normal, so that many octaves are met: from nanoseconds to minutes.
std::vector<std::int64_t> random_durations(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 engine(seed);
  std::lognormal_distribution<double> draw(14, 4);
  std::vector<std::int64_t> values(count);
  for (auto& value : values) value = static_cast<std::int64_t>(std::min(draw(engine), 1e13));
  return values;
}

LatencyHistogram histogram_of(const std::vector<std::int64_t>& values) {
  LatencyHistogram histogram;
  for (const auto value : values) histogram.record(nanoseconds(value));
  return histogram;
}

double share_at_most(const std::vector<std::int64_t>& sorted, std::int64_t value) {
  const auto count = std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  return static_cast<double>(count) / static_cast<double>(sorted.size());
}

TEST_CASE("latency_histogram: empty, everything is zero") {
  const LatencyHistogram histogram;
  CHECK(histogram.count() == 0);
  CHECK(histogram.minimum() == nanoseconds(0));
  CHECK(histogram.maximum() == nanoseconds(0));
  CHECK(histogram.mean() == nanoseconds(0));
  CHECK(histogram.standard_deviation() == nanoseconds(0));
  CHECK(histogram.percentile(99) == nanoseconds(0));
  CHECK(histogram.distribution(400).empty());
}

TEST_CASE("latency_histogram: below 2048 ns percentiles are exact") {
  LatencyHistogram histogram;
  for (int value = 1; value <= 1000; ++value) histogram.record(nanoseconds(value));
  for (int percent = 1; percent <= 100; ++percent)
    CHECK(histogram.percentile(percent) == nanoseconds(percent * 10));
  CHECK(histogram.percentile(0) == nanoseconds(1));
  CHECK(histogram.percentile(7.001) == nanoseconds(71));
}

TEST_CASE("latency_histogram: percentiles are those of the sorted values within 0.05 %") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto values = random_durations(seed, 1 + seed * 997 % 5000);
    const auto histogram = histogram_of(values);
    std::sort(values.begin(), values.end());
    for (const double percent : {0.0, 0.1, 1.0, 25.0, 50.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0}) {
      const auto rank = std::max(1.0, std::ceil(percent / 100 * static_cast<double>(values.size()) - 1e-9));
      const auto exact = static_cast<double>(values[static_cast<std::size_t>(rank) - 1]);
      const auto found = static_cast<double>(histogram.percentile(percent).count());
      CHECK(std::abs(found - exact) <= kLargestError * exact);
    }
  }
}

TEST_CASE("latency_histogram: at every power of two the error stays below 0.05 %") {
  for (int bits = 0; bits < 46; ++bits) {
    for (const std::int64_t offset : {-1, 0, 1}) {
      const std::int64_t value = (std::int64_t{1} << bits) + offset;
      // Two others, so that neither minimum nor maximum gives the value away.
      const auto histogram = histogram_of({0, value, std::int64_t{1} << 46});
      const auto found = histogram.percentile(50).count();
      CHECK(std::abs(static_cast<double>(found - value)) <= kLargestError * static_cast<double>(value));
    }
  }
}

TEST_CASE("latency_histogram: count, extremes, mean and deviation are those of the values") {
  const auto values = random_durations(7, 3000);
  const auto histogram = histogram_of(values);
  long double sum = 0;
  for (const auto value : values) sum += value;
  const auto mean = sum / 3000;
  long double squares = 0;
  for (const auto value : values) squares += (value - mean) * (value - mean);
  CHECK(histogram.count() == 3000);
  CHECK(histogram.minimum().count() == *std::min_element(values.begin(), values.end()));
  CHECK(histogram.maximum().count() == *std::max_element(values.begin(), values.end()));
  CHECK(std::abs(static_cast<long double>(histogram.mean().count()) - mean) <= 0.5L);
  CHECK(histogram.standard_deviation().count() ==
        doctest::Approx(static_cast<double>(std::sqrt(squares / 3000))));
}

TEST_CASE("latency_histogram: merging loses nothing") {
  const auto values = random_durations(3, 5000);
  const auto whole = histogram_of(values);
  LatencyHistogram merged;
  for (int part = 0; part < 5; ++part)
    merged.merge(histogram_of({values.begin() + part * 1000, values.begin() + (part + 1) * 1000}));
  merged.merge(LatencyHistogram());
  CHECK(merged.count() == whole.count());
  CHECK(merged.minimum() == whole.minimum());
  CHECK(merged.maximum() == whole.maximum());
  CHECK(merged.mean() == whole.mean());
  for (double percent = 0; percent <= 100; percent += 0.5)
    CHECK(merged.percentile(percent) == whole.percentile(percent));
}

TEST_CASE("latency_histogram: a curve has at most the points asked for, each on the empirical distribution") {
  for (const std::size_t max_points : {1, 2, 7, 400}) {
    for (const std::size_t count : {1, 3, 399, 20000}) {
      auto values = random_durations(count, count);
      const auto steps = histogram_of(values).distribution(max_points);
      std::sort(values.begin(), values.end());
      REQUIRE(!steps.empty());
      CHECK(steps.size() <= max_points);
      CHECK(steps.back().share == 1.0);
      CHECK(steps.back().value.count() == values.back());
      double before = 0;
      for (const auto& step : steps) {
        CHECK(step.share > before);
        CHECK(step.share == share_at_most(values, step.value.count()));
        before = step.share;
      }
    }
  }
}

TEST_CASE("latency_histogram: a curve of many values reaches into the last hundredth") {
  const auto steps = histogram_of(random_durations(5, 100000)).distribution(400);
  const auto in_tail =
      std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.share > 0.99; });
  CHECK(in_tail >= 50);
}

TEST_CASE("latency_histogram: those without an end are longer than any other, and in no mean") {
  LatencyHistogram histogram, other;
  for (int i = 1; i <= 9; ++i) histogram.record(nanoseconds(i));
  other.record_endless();
  histogram.merge(other);
  CHECK(histogram.count() == 9);
  CHECK(histogram.num_endless() == 1);
  CHECK(histogram.percentile(90) == nanoseconds(9));
  CHECK(histogram.percentile(91) == nanoseconds::max());
  CHECK(histogram.mean() == nanoseconds(5));
  CHECK(histogram.maximum() == nanoseconds(9));
  CHECK(histogram.distribution(100).back().share == 0.9);
  CHECK(other.percentile(50) == nanoseconds::max());
  CHECK(other.distribution(10).empty());
}

TEST_CASE("latency_histogram: negative durations count as zero, hours stay the maximum") {
  LatencyHistogram histogram;
  histogram.record(nanoseconds(-5));
  histogram.record(hours(1000));
  CHECK(histogram.minimum() == nanoseconds(0));
  CHECK(histogram.maximum() == hours(1000));
  CHECK(histogram.percentile(50) == nanoseconds(0));
  CHECK(histogram.percentile(100) == hours(1000));
  CHECK(histogram.mean() == hours(500));
}

}  // namespace
}  // namespace troupe::loadgen
