// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "loadgen/workload/quantile_grid.hpp"
#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

using Kind = DistributionSettings::Kind;

constexpr double kMaxCount = 4e9;  // fits 32 bits

void check_log_normal(const DistributionSettings& settings, const std::string& key) {
  if (settings.median != 0) {
    expect_above_zero(key + ".median", settings.median);
    expect_at_least(key + ".sigma", 0, settings.sigma);
  } else {
    expect_above_zero(key + ".mean", settings.mean);
    expect_at_least(key + ".stddev", 0, settings.stddev);
  }
}

void check_quantiles(const DistributionSettings& settings, const std::string& key) {
  const auto& values = settings.quantiles;
  if (settings.file.empty() && values.size() < 2)
    refuse_setting(key + ".quantiles", "a file or at least two values",
                   std::to_string(values.size()) + " values");
  const auto fall = std::is_sorted_until(values.begin(), values.end());
  if (fall != values.end())
    refuse_setting(key + ".quantiles", "values that never decrease",
                   number_text(*fall) + " after " + number_text(*(fall - 1)));
}

// Median and sigma from mean and standard deviation.
void complete_log_normal(DistributionSettings& settings) {
  if (settings.median > 0) return;
  const double variance_ratio = std::pow(settings.stddev / settings.mean, 2);
  settings.sigma = std::sqrt(std::log1p(variance_ratio));
  settings.median = settings.mean / std::sqrt(1 + variance_ratio);
}

}  // namespace

Distribution::Distribution(DistributionSettings settings) : settings_(std::move(settings)) {
  if (settings_.kind == Kind::kLogNormal) complete_log_normal(settings_);
  if (settings_.kind == Kind::kQuantiles && !settings_.file.empty())
    settings_.quantiles = read_quantile_grid(settings_.file, settings_.key);
}

double Distribution::sample(RandomSource& random) const {
  if (settings_.kind == Kind::kFixed) return settings_.mean;
  return std::clamp(unclamped(random), settings_.min, settings_.max);
}

std::uint32_t Distribution::sample_count(RandomSource& random, std::uint32_t minimum) const {
  // Rounding a real number would make the two ends half as likely as the rest.
  const double value =
      settings_.kind == Kind::kUniform
          ? std::floor(settings_.min + random.uniform() * (settings_.max - settings_.min + 1))
          : std::round(sample(random));
  return static_cast<std::uint32_t>(std::clamp(value, static_cast<double>(minimum), kMaxCount));
}

double Distribution::unclamped(RandomSource& random) const {
  switch (settings_.kind) {
    case Kind::kFixed: return settings_.mean;
    case Kind::kUniform: return settings_.min + random.uniform() * (settings_.max - settings_.min);
    case Kind::kNormal: return settings_.mean + settings_.stddev * random.normal();
    case Kind::kLogNormal: return settings_.median * std::exp(settings_.sigma * random.normal());
    case Kind::kExponential: return settings_.mean * random.exponential();
    case Kind::kQuantiles: return value_at(settings_.quantiles, random.uniform());
  }
  return 0;
}

std::chrono::nanoseconds seconds_to_nanoseconds(double seconds) {
  using std::chrono::nanoseconds;
  return seconds < kEndOfTimeS ? nanoseconds(std::llround(seconds * 1e9)) : nanoseconds::max();
}

void check(const DistributionSettings& settings, const std::string& key) {
  expect_at_least(key + ".min", 0, settings.min);
  if (!(settings.max >= settings.min))
    refuse_setting(key + ".max", "at least the minimum " + number_text(settings.min),
                   number_text(settings.max));
  switch (settings.kind) {
    case Kind::kFixed: return expect_at_least(key, 0, settings.mean);
    case Kind::kUniform: return expect_at_least(key + ".max", settings.min, settings.max);
    case Kind::kNormal:
      expect_at_least(key + ".mean", 0, settings.mean);
      return expect_at_least(key + ".stddev", 0, settings.stddev);
    case Kind::kLogNormal: return check_log_normal(settings, key);
    case Kind::kExponential: return expect_above_zero(key + ".mean", settings.mean);
    case Kind::kQuantiles: return check_quantiles(settings, key);
  }
}

}  // namespace troupe::loadgen
