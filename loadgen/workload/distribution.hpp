// SPDX-License-Identifier: Apache-2.0
// Draws lengths in tokens, numbers of turns, and times in seconds.
#pragma once

#include <chrono>
#include <cstdint>

#include "loadgen/workload/random_source.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

// Any thread: sampling changes only the random source.
class Distribution {
 public:
  // Opens the file of quantiles, if there is one. Throws std::runtime_error.
  explicit Distribution(DistributionSettings settings);

  double sample(RandomSource& random) const;
  // Rounded to the nearest whole number of at least `minimum`.
  std::uint32_t sample_count(RandomSource& random, std::uint32_t minimum = 0) const;

 private:
  double unclamped(RandomSource& random) const;

  DistributionSettings settings_;
};

// 285 years; 64 bits of nanoseconds end soon after.
constexpr double kEndOfTimeS = 9e9;

// Rounded; from the end of time on, the largest value there is.
std::chrono::nanoseconds seconds_to_nanoseconds(double seconds);

// Throws std::runtime_error that begins with `key`: "class[0].prompt_tokens.max:
// expected ..., got ...". Does not open the file.
void check(const DistributionSettings& settings, const std::string& key);

}  // namespace troupe::loadgen
