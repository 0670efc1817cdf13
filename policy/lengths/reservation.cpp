// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/reservation.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

std::uint32_t doubled_reservation(const Overrun& overrun) {
  const std::uint64_t doubled = std::uint64_t{2} * std::max(1U, overrun.reserved);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(doubled, overrun.max_tokens));
}

OverrunAnswer answer_overrun(const Overrun& overrun, bool fits_doubled) {
  return fits_doubled || overrun.has_given_way ? OverrunAnswer::kGrow : OverrunAnswer::kGiveWay;
}

// Multiples of the golden ratio: any few that follow each other lie apart.
double spread_rank(std::uint64_t arrival, std::uint32_t scenario) {
  constexpr double kGolden = 0.6180339887498949;
  constexpr double kScenario = 0.3819660112501051 / 2;
  const double place = static_cast<double>(arrival % (1U << 20U)) * kGolden + scenario * kScenario;
  return place - std::floor(place);
}

}  // namespace troupe
