// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/distribution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tests/loadgen/workload/kolmogorov_smirnov.hpp"
#include "tests/loadgen/workload/planned_input.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace distribution_test {
namespace {

using Kind = DistributionSettings::Kind;

std::vector<double> samples_of(const DistributionSettings& settings, int count = 20000) {
  check(settings, "x");
  const Distribution distribution(settings);
  RandomSource random(99);
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(distribution.sample(random));
  return samples;
}

double mean_of(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

DistributionSettings of_kind(Kind kind) {
  DistributionSettings settings;
  settings.kind = kind;
  return settings;
}

DistributionSettings log_normal_by_median(double median, double sigma) {
  auto settings = of_kind(Kind::kLogNormal);
  settings.median = median;
  settings.sigma = sigma;
  return settings;
}

std::string refusal(const DistributionSettings& settings) {
  return refusal_of([&] { check(settings, "tokens"); });
}

}  // namespace

TEST_CASE("distribution: fixed is that number") {
  const auto samples = samples_of(fixed(128), 10);
  CHECK(std::all_of(samples.begin(), samples.end(), [](double x) { return x == 128; }));
}

TEST_CASE("distribution: uniform passes Kolmogorov-Smirnov between its ends") {
  CHECK(passes_ks(samples_of(uniform(10, 30)), [](double x) { return (x - 10) / 20; }));
  CHECK_FALSE(passes_ks(samples_of(uniform(10, 31)), [](double x) { return (x - 10) / 20; }));
}

TEST_CASE("distribution: uniform counts take both ends and all between equally often") {
  const Distribution distribution(uniform(3, 6));
  RandomSource random(5);
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 40000; ++i) ++counts[distribution.sample_count(random)];
  REQUIRE(counts.size() == 4);
  CHECK(counts.begin()->first == 3);
  for (const auto& [value, count] : counts) CHECK(count == doctest::Approx(10000).epsilon(0.04));
}

TEST_CASE("distribution: normal has its mean and deviation") {
  auto settings = of_kind(Kind::kNormal);
  settings.mean = 1000;
  settings.stddev = 100;
  CHECK(passes_ks(samples_of(settings), [](double x) { return normal_cdf((x - 1000) / 100); }));
  settings.stddev = 110;
  CHECK_FALSE(passes_ks(samples_of(settings), [](double x) { return normal_cdf((x - 1000) / 100); }));
}

TEST_CASE("distribution: log-normal has its median and the deviation of its logarithm") {
  const auto cdf = [](double x) { return normal_cdf(std::log(x / 760) / 0.99); };
  CHECK(passes_ks(samples_of(log_normal_by_median(760, 0.99)), cdf));
  CHECK_FALSE(passes_ks(samples_of(log_normal_by_median(800, 0.99)), cdf));
}

TEST_CASE("distribution: log-normal by mean and deviation has these") {
  auto settings = of_kind(Kind::kLogNormal);
  settings.mean = 200;
  settings.stddev = 100;
  const auto samples = samples_of(settings, 200'000);
  const double mean = mean_of(samples);
  double square = 0;
  for (const double x : samples) square += std::pow(x - mean, 2);
  CHECK(mean == doctest::Approx(200).epsilon(0.01));
  CHECK(std::sqrt(square / 200'000) == doctest::Approx(100).epsilon(0.02));
}

TEST_CASE("distribution: exponential has its mean") {
  auto settings = of_kind(Kind::kExponential);
  settings.mean = 5;
  CHECK(passes_ks(samples_of(settings), [](double x) { return 1 - std::exp(-x / 5); }));
  CHECK_FALSE(passes_ks(samples_of(settings), [](double x) { return 1 - std::exp(-x / 5.3); }));
}

TEST_CASE("distribution: samples are clamped to minimum and maximum") {
  auto settings = log_normal_by_median(100, 2);
  settings.min = 50;
  settings.max = 200;
  const auto samples = samples_of(settings);
  CHECK(*std::min_element(samples.begin(), samples.end()) == 50);
  CHECK(*std::max_element(samples.begin(), samples.end()) == 200);
}

TEST_CASE("distribution: counts are rounded and not below the minimum asked for") {
  RandomSource random(1);
  CHECK(Distribution(fixed(2.6)).sample_count(random) == 3);
  CHECK(Distribution(fixed(0)).sample_count(random, 1) == 1);
  CHECK(Distribution(fixed(1e18)).sample_count(random) == 4'000'000'000);
}

TEST_CASE("distribution: quantiles are met, with straight lines between") {
  auto settings = of_kind(Kind::kQuantiles);
  settings.quantiles = {0, 10, 100};
  const auto cdf = [](double x) { return x < 10 ? x / 20 : 0.5 + (x - 10) / 180; };
  CHECK(passes_ks(samples_of(settings), cdf));
  settings.quantiles = {0, 11, 100};
  CHECK_FALSE(passes_ks(samples_of(settings), cdf));
}

TEST_CASE("distribution: settings out of range are refused with key, what was expected and what came") {
  CHECK(refusal(fixed(-1)) == "tokens: expected a number of at least 0, got -1");
  CHECK(refusal(uniform(5, 4)) == "tokens.max: expected at least the minimum 5, got 4");
  CHECK(refusal(uniform(5, INFINITY)) == "tokens.max: expected a number of at least 5, got inf");
  auto settings = of_kind(Kind::kNormal);
  settings.stddev = -2;
  CHECK(refusal(settings) == "tokens.stddev: expected a number of at least 0, got -2");
  CHECK(refusal(of_kind(Kind::kLogNormal)) == "tokens.mean: expected a number above 0, got 0");
  CHECK(refusal(log_normal_by_median(-1, 1)) == "tokens.median: expected a number above 0, got -1");
  CHECK(refusal(of_kind(Kind::kExponential)) == "tokens.mean: expected a number above 0, got 0");
  CHECK(refusal(of_kind(Kind::kQuantiles)) ==
        "tokens.quantiles: expected a file or at least two values, got 0 values");
  settings = of_kind(Kind::kQuantiles);
  settings.quantiles = {1, 3, 2};
  CHECK(refusal(settings) == "tokens.quantiles: expected values that never decrease, got 2 after 3");
}

}  // namespace distribution_test
