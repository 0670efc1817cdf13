// SPDX-License-Identifier: Apache-2.0
// The highest rate at which a server keeps what is asked of it: doubled from where the
// search begins until it does not, then halved between the two.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::loadgen {

struct RateTrial {
  double rate = 0;                                 // conversations a second
  std::vector<std::chrono::nanoseconds> measured;  // for each objective
  bool is_met = false;
};

// A trial that says nothing of the server.
enum class Unjudged : std::uint8_t {
  kInterrupted,
  kServerGone,
  kGeneratorLate,  // our own
  kNotMeasured,    // no request, or none that has this latency
};

// "the server was gone": the rest of a sentence with "because".
std::string_view reason_text(Unjudged reason);

struct RateAnswer {
  std::optional<RateTrial> highest;   // nullopt: none that was tried was met
  std::optional<RateTrial> missed;    // the lowest that was not; nullopt: all were met
  std::optional<Unjudged> cut_short;  // the search ended before it was as near as asked
};

// Rates are tried up to so many times the first, and down to that part of it.
inline constexpr double kRateRange = 1024;

// begin: > 0. precision: > 0; the search ends when the lowest missed rate is at most so
// much, as a share, above the highest that was met. A trial that is not judged ends it at once.
RateAnswer find_highest_rate(const std::function<std::variant<RateTrial, Unjudged>(double)>& try_rate,
                             double begin, double precision);

}  // namespace troupe::loadgen
