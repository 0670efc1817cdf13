// SPDX-License-Identifier: Apache-2.0
#include "policy/health/device_watch.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr double kForgotten = 0.02;        // of the longest time, by each batch
constexpr std::uint32_t kLargestStep = 4;  // times the most tokens so far: beyond, nothing is known

}  // namespace

void DeviceWatch::take_finished(std::uint32_t num_tokens, std::chrono::nanoseconds time) {
  has_finished_one_ = true;
  most_tokens_ = std::max(most_tokens_, num_tokens);
  longest_nanoseconds_ =
      std::max((1.0 - kForgotten) * longest_nanoseconds_, static_cast<double>(time.count()));
}

DeviceWatch::Finding DeviceWatch::look(TimePoint now, TimePoint since, std::uint32_t num_tokens) {
  const auto limit = kPatience + longest_step(num_tokens);
  const auto silence = silence_.look(now, since);
  if (silence < limit) return Finding::kFine;
  return silence < limit + kLastPatience ? Finding::kHangs : Finding::kHopeless;
}

std::chrono::nanoseconds DeviceWatch::longest_step(std::uint32_t num_tokens) const {
  if (!has_finished_one_ || num_tokens > kLargestStep * most_tokens_) return kUnknownStep;
  const double share = most_tokens_ == 0 ? 1.0 : static_cast<double>(num_tokens) / most_tokens_;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(longest_nanoseconds_ * std::max(1.0, share)));
}

}  // namespace troupe
