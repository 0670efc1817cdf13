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

std::uint32_t reservation_after_look(const LookedAt& look) {
  const std::uint32_t least = std::min(look.least, look.max_tokens);
  const std::uint32_t wanted = std::clamp(look.wanted, least, look.max_tokens);
  if (look.standing < least) return wanted;
  const std::uint32_t distance = wanted > look.standing ? wanted - look.standing : look.standing - wanted;
  return distance < std::max(look.page_size, look.standing / 8) ? look.standing : wanted;
}

// Multiples of the golden ratio: any few that follow each other lie apart.
double spread_rank(std::uint64_t arrival, std::uint32_t scenario) {
  constexpr double kGolden = 0.6180339887498949;
  constexpr double kScenario = 0.3819660112501051 / 2;
  const double place = static_cast<double>(arrival % (1U << 20U)) * kGolden + scenario * kScenario;
  return place - std::floor(place);
}

}  // namespace troupe
