// SPDX-License-Identifier: Apache-2.0
#include "policy/iteration_time.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr double kWeight = 0.1;  // of the newest observation
constexpr std::chrono::seconds kShortestStall{10};
constexpr int kStallFactor = 5;

}  // namespace

void IterationTime::observe(std::uint32_t num_tokens, std::chrono::nanoseconds time) {
  if (num_tokens == 0) return;
  const auto nanoseconds = static_cast<double>(time.count());
  // The normalized least-mean-squares step: shares the error between the fixed
  // part and the tokens as (1, num_tokens) weighs them.
  const double tokens = num_tokens;
  const double error = nanoseconds - (fixed_nanoseconds_ + nanoseconds_per_token_ * tokens);
  const double step = kWeight * error / (1.0 + tokens * tokens);
  fixed_nanoseconds_ = std::max(0.0, fixed_nanoseconds_ + step);
  nanoseconds_per_token_ = std::max(0.0, nanoseconds_per_token_ + step * tokens);
}

std::chrono::nanoseconds IterationTime::predict(std::uint32_t num_tokens) const {
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(fixed_nanoseconds_ + nanoseconds_per_token_ * num_tokens));
}

std::chrono::nanoseconds stall_threshold(std::chrono::nanoseconds predicted) {
  return std::max<std::chrono::nanoseconds>(kShortestStall, kStallFactor * predicted);
}

}  // namespace troupe
