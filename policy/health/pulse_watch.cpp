// SPDX-License-Identifier: Apache-2.0
#include "policy/health/pulse_watch.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kLostAfter{10};
constexpr std::chrono::seconds kHopelessAfter{60};

}  // namespace

PulseWatch::Look PulseWatch::look(TimePoint now, std::uint64_t answered, bool is_wanted) {
  if (answered == asked_) {
    if (!is_wanted) return {};
    asked_at_ = now;
    return {.finding = Finding::kFine, .ask = ++asked_};
  }
  const auto silence = silence_.look(now, asked_at_);
  if (silence < kLostAfter) return {};
  return {.finding = silence < kHopelessAfter ? Finding::kLost : Finding::kHopeless, .ask = {}};
}

}  // namespace troupe
