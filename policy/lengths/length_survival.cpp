// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_survival.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "policy/lengths/length_guess.hpp"

namespace troupe {

LengthSurvival::LengthSurvival(std::span<const SeenLength> sorted) {
  places_.push_back({});
  auto num_left = static_cast<double>(sorted.size());
  for (const SeenLength& length : sorted) {
    const double share = length.is_whole ? unknown_ / num_left : 0;
    unknown_ -= share;
    num_left -= 1;
    if (share > 0) places_.push_back({.num_tokens = length.num_tokens, .share = share});
    last_seen_ = length.num_tokens;
  }
  // From shares of their own to sums over the longer ones.
  double share = 0, tokens = 0;
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    const double own = std::exchange(place->share, share);
    place->tokens = tokens;
    share += own;
    tokens += own * place->num_tokens;
  }
}

// The last place that is not beyond the length: of equal ones the last, whose sums are of the longer ones.
LengthSurvival::Place LengthSurvival::beyond(std::uint32_t num_tokens) const {
  const auto after =
      std::upper_bound(places_.begin(), places_.end(), num_tokens,
                       [](std::uint32_t length, const Place& place) { return length < place.num_tokens; });
  return *std::prev(after);
}

// Over the lengths that are longer than what was seen of the answer, times their share.
double LengthSurvival::known_loss(double rank, std::uint32_t guess, std::uint32_t seen) const {
  const Place longer = beyond(seen), too_long = beyond(std::max(guess, seen));
  const double fitting = guess * (longer.share - too_long.share) - (longer.tokens - too_long.tokens);
  return rank * (too_long.tokens - guess * too_long.share) + (1 - rank) * fitting;
}

double LengthSurvival::loss(double rank, std::uint32_t guess, SeenLength length,
                            std::uint32_t longest) const {
  const auto at = [&](std::uint32_t end) {
    return pinball_loss(rank, guess, {.num_tokens = end}).value_or(0);
  };
  if (length.is_whole) return at(length.num_tokens);
  const double unknown_loss = (at(last_seen_) + at(std::max(longest, last_seen_))) / 2;
  const double share = beyond(length.num_tokens).share + unknown_;
  return (known_loss(rank, guess, length.num_tokens) + unknown_ * unknown_loss) / share;
}

std::uint32_t LengthSurvival::quantile(double rank) const {
  constexpr double kRounding = 1e-9;
  const auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& one) {
    return 1 - one.share - unknown_ >= rank - kRounding;
  });
  return place == places_.end() ? last_seen_ : place->num_tokens;
}

}  // namespace troupe
