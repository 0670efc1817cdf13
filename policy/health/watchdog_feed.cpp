// SPDX-License-Identifier: Apache-2.0
#include "policy/health/watchdog_feed.hpp"

namespace troupe {
namespace {

constexpr int kFeedsWithinLimit = 3;

}  // namespace

WatchdogFeed::WatchdogFeed(std::chrono::microseconds limit, TimePoint now) : limit_(limit), fed_at_(now) {}

bool WatchdogFeed::wants_sign(TimePoint now) const {
  return limit_.count() > 0 && now - fed_at_ >= limit_ / kFeedsWithinLimit;
}

bool WatchdogFeed::is_due(TimePoint now, std::uint64_t num_signs, bool is_stuck) const {
  return wants_sign(now) && num_signs != num_signs_fed_ && !is_stuck;
}

void WatchdogFeed::note_fed(TimePoint now, std::uint64_t num_signs) {
  fed_at_ = now;
  num_signs_fed_ = num_signs;
}

}  // namespace troupe
