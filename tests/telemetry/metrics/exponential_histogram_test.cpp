// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/exponential_histogram.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace troupe;

namespace {

std::shared_ptr<const HistogramLayout> layout(HistogramLayout::Settings settings) {
  return std::make_shared<const HistogramLayout>(std::move(settings));
}

const std::vector<double> kCuts = {0.001, 0.0025, 0.01, 0.04, 0.1, 0.1001, 0.25, 1, 2.5, 160, 7680};

std::shared_ptr<const HistogramLayout> seconds_layout() {
  return layout({.schema = 4, .min_exponent = -20, .max_exponent = 14, .cuts = kCuts});
}

// Times of all sizes; those that were observed.
std::vector<double> observe_many(ExponentialHistogram& histogram, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> seconds(-3, 2);
  std::vector<double> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(seconds(random));
    histogram.observe(values.back());
  }
  return values;
}

// Where each bucket of a native histogram ends, and what is in it.
std::vector<std::pair<double, std::int64_t>> buckets_of(const NativeHistogram& native) {
  std::vector<std::pair<double, std::int64_t>> buckets;
  int index = 0;
  std::size_t next = 0;
  std::int64_t count = 0;
  for (const auto& span : native.spans) {
    index += span.offset;
    for (std::uint32_t i = 0; i < span.length; ++i, ++index) {
      count += native.deltas.at(next++);
      buckets.emplace_back(std::exp2(std::ldexp(index, -native.schema)), count);
    }
  }
  CHECK(next == native.deltas.size());
  return buckets;
}

}  // namespace

TEST_CASE("exponential histogram: every value is in the cell whose bounds enclose it") {
  const auto cells = seconds_layout();
  const auto uppers = cells->uppers();
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-24, 16);
  for (int i = 0; i < 100'000; ++i) {
    const double value = std::exp2(exponent(random));
    const std::size_t cell = cells->cell_of(value);
    CHECK_MESSAGE(value <= uppers[cell], value);
    if (cell > 0) CHECK_MESSAGE(value > uppers[cell - 1], value);
  }
}

TEST_CASE("exponential histogram: a bound belongs to the bucket it ends") {
  const auto cells = seconds_layout();
  const auto uppers = cells->uppers();
  for (std::size_t cell = 0; cell + 1 < uppers.size(); ++cell) {
    CHECK(cells->cell_of(uppers[cell]) == cell);
    CHECK(cells->cell_of(std::nextafter(uppers[cell], 1e9)) == cell + 1);
  }
}

TEST_CASE("exponential histogram: classic buckets are exact") {
  ExponentialHistogram histogram(seconds_layout());
  const auto values = observe_many(histogram, 2);
  const auto counts = histogram.counts();
  const auto cumulative = counts.cumulative(kCuts);
  for (std::size_t i = 0; i < kCuts.size(); ++i)
    CHECK(cumulative[i] ==
          std::count_if(values.begin(), values.end(), [&](double v) { return v <= kCuts[i]; }));
  CHECK(counts.total() == values.size());
}

TEST_CASE("exponential histogram: native buckets are exact and cut nowhere but at powers of 2^(1/16)") {
  ExponentialHistogram histogram(seconds_layout());
  const auto values = observe_many(histogram, 3);
  const NativeHistogram native = histogram.counts().native();
  CHECK(native.schema == 4);
  std::int64_t total = static_cast<std::int64_t>(native.zero_count);
  for (const auto& [upper, count] : buckets_of(native)) {
    const double lower = upper * std::exp2(-1.0 / 16);
    CHECK(count == std::count_if(values.begin(), values.end(), [&](double v) {
            return v > lower * (1 + 1e-12) && v <= upper * (1 + 1e-12);
          }));
    total += count;
  }
  CHECK(total == static_cast<std::int64_t>(values.size()));
}

TEST_CASE("exponential histogram: empty buckets between full ones cost a span") {
  ExponentialHistogram histogram(layout({.schema = 0, .min_exponent = -2, .max_exponent = 8}));
  for (const double value : {0.5, 0.75, 1.0, 100.0}) histogram.observe(value);
  const NativeHistogram native = histogram.counts().native();
  // (0.25, 0.5] is bucket -1, (0.5, 1] is 0, (64, 128] is 7.
  CHECK(native.spans == std::vector<NativeHistogram::Span>{{-1, 2}, {6, 1}});
  CHECK(native.deltas == std::vector<std::int64_t>{1, 1, -1});
}

TEST_CASE("exponential histogram: too small is zero, too large is one bucket, NaN is nothing") {
  ExponentialHistogram histogram(layout({.schema = 0, .min_exponent = 0, .max_exponent = 3, .cuts = {1, 8}}));
  histogram.observe(0);
  histogram.observe(-5);
  histogram.observe(1);
  histogram.observe(8.5);
  histogram.observe(std::numeric_limits<double>::infinity());
  histogram.observe(std::nan(""));
  const auto counts = histogram.counts();
  CHECK(counts.total() == 5);
  CHECK(counts.cumulative(std::vector<double>{1, 8}) == std::vector<std::uint64_t>{3, 3});
  const NativeHistogram native = counts.native();
  CHECK(native.zero_threshold == 1);
  CHECK(native.zero_count == 3);
  CHECK(native.spans == std::vector<NativeHistogram::Span>{{4, 1}});  // (8, 16]
  CHECK(native.deltas == std::vector<std::int64_t>{2});
}

TEST_CASE("exponential histogram: nothing is lost when threads observe at once") {
  ExponentialHistogram histogram(seconds_layout());
  constexpr int kThreads = 4;
  constexpr int kEach = 20'000;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) histogram.observe(0.001 * (thread + 1));
    });
  while (histogram.counts().total() < 100) std::this_thread::yield();  // while they write
  threads.clear();
  const auto counts = histogram.counts();
  CHECK(counts.total() == kThreads * kEach);
  CHECK(counts.sum() == doctest::Approx(0.001 * kEach * (1 + 2 + 3 + 4)));
}

TEST_CASE("exponential histogram: settings that make no sense are refused by name") {
  CHECK_THROWS_WITH_AS(layout({.schema = 7}), "histogram: a schema is 0 to 6, not 7", std::invalid_argument);
  CHECK_THROWS_WITH_AS(layout({.min_exponent = 3, .max_exponent = 3}),
                       "histogram: no room between 2^3 and 2^3", std::invalid_argument);
  CHECK_THROWS_WITH_AS(layout({.min_exponent = 0, .max_exponent = 3, .cuts = {9}}),
                       "histogram: 9.000000 is not between 2^0 and 2^3", std::invalid_argument);
}
