// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/rate_search.hpp"

#include <cmath>
#include <utility>

namespace troupe::loadgen {
namespace {

// nullopt: the search is over.
std::optional<double> next_rate(const RateAnswer& answer, double begin, double precision) {
  const bool has_met = answer.highest.has_value(), has_missed = answer.missed.has_value();
  if (!has_met && !has_missed) return begin;
  if (!has_missed) {
    const double next = 2 * answer.highest->rate;
    return next <= begin * kRateRange ? std::optional(next) : std::nullopt;
  }
  if (!has_met) {
    const double next = answer.missed->rate / 2;
    return next >= begin / kRateRange ? std::optional(next) : std::nullopt;
  }
  if (answer.missed->rate <= answer.highest->rate * (1 + precision)) return std::nullopt;
  return std::sqrt(answer.highest->rate * answer.missed->rate);
}

}  // namespace

RateAnswer find_highest_rate(const std::function<std::optional<RateTrial>(double)>& try_rate, double begin,
                             double precision) {
  RateAnswer answer;
  while (const auto rate = next_rate(answer, begin, precision)) {
    auto trial = try_rate(*rate);
    if (!trial) break;
    (trial->is_met ? answer.highest : answer.missed) = std::move(*trial);
  }
  return answer;
}

}  // namespace troupe::loadgen
