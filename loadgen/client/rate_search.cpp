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

std::string_view reason_text(Unjudged reason) {
  switch (reason) {
    case Unjudged::kInterrupted: return "it was interrupted";
    case Unjudged::kServerGone: return "the server was gone";
    case Unjudged::kGeneratorLate: return "the generator itself was late, which says nothing of the server";
    case Unjudged::kNotMeasured: return "nothing was measured";
  }
  return {};
}

RateAnswer find_highest_rate(const std::function<std::variant<RateTrial, Unjudged>(double)>& try_rate,
                             double begin, double precision) {
  RateAnswer answer;
  while (const auto rate = next_rate(answer, begin, precision)) {
    auto outcome = try_rate(*rate);
    if (const auto* reason = std::get_if<Unjudged>(&outcome)) {
      answer.cut_short = *reason;
      break;
    }
    auto& trial = std::get<RateTrial>(outcome);
    (trial.is_met ? answer.highest : answer.missed) = std::move(trial);
  }
  return answer;
}

}  // namespace troupe::loadgen
