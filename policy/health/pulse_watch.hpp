// SPDX-License-Identifier: Apache-2.0
// Finds out whether the actors act, for a thread that is none of theirs: it asks
// them for a sign, one at a time, and counts the time without an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "policy/health/watched_time.hpp"

namespace troupe {

class PulseWatch {
 public:
  using TimePoint = WatchedTime::TimePoint;
  enum class Finding : std::uint8_t {
    kFine,
    kLost,      // no answer for 10 s
    kHopeless,  // none for a minute
  };
  struct Look {
    Finding finding = Finding::kFine;
    std::optional<std::uint64_t> ask;  // send this number
  };

  // answered: the last number that came back, 0 at first. is_wanted: there is
  // something to be done, so a new sign is asked for. About every fifth of a second.
  Look look(TimePoint now, std::uint64_t answered, bool is_wanted);

 private:
  WatchedTime silence_{std::chrono::seconds(1)};
  std::uint64_t asked_ = 0;
  TimePoint asked_at_;
};

}  // namespace troupe
