// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

double within(double logarithm) { return std::clamp(logarithm, -Calibration::kMost, Calibration::kMost); }

}  // namespace

CalibratedGuess Calibration::apply(std::uint32_t guess, std::uint32_t most) const {
  CalibratedGuess calibrated{.guess = guess, .most = std::max(1U, most)};
  calibrated.reserved = calibrated.most;
  if (guess >= most) return calibrated;
  const double reserved = std::ceil(std::exp(log_factor(guess)) * guess);
  calibrated.reserved = static_cast<std::uint32_t>(std::clamp(reserved, 1.0, static_cast<double>(most)));
  return calibrated;
}

void Calibration::learn(const CalibratedGuess& guess, bool has_fitted) {
  if (guess.guess >= guess.most || (has_fitted && guess.reserved <= 1)) return;
  const double direction = (has_fitted ? 0.0 : 1.0) - (1 - quantile_);
  const Place place = place_of(guess.guess);
  shared_ = within(shared_ + kSharedStep * direction);
  own_[place.knot] = within(own_[place.knot] + kOwnStep * (1 - place.share) * direction);
  own_[place.knot + 1] = within(own_[place.knot + 1] + kOwnStep * place.share * direction);
}

double Calibration::log_factor(std::uint32_t guess) const {
  const Place place = place_of(guess);
  return shared_ + own_[place.knot] * (1 - place.share) + own_[place.knot + 1] * place.share;
}

Calibration::Place Calibration::place_of(std::uint32_t guess) {
  constexpr double kEnd = kNumKnots - 1;
  const double at = std::min(std::log2(std::max(1U, guess)), kEnd);
  const auto knot = std::min(static_cast<std::size_t>(at), kNumKnots - 2);
  return {.knot = knot, .share = at - static_cast<double>(knot)};
}

std::array<double, Calibration::kNumNumbers> Calibration::numbers() const {
  std::array<double, kNumNumbers> numbers = {shared_};
  std::copy(own_.begin(), own_.end(), numbers.begin() + 1);
  return numbers;
}

bool Calibration::restore(std::span<const double> numbers) {
  if (numbers.size() != kNumNumbers) return false;
  if (std::any_of(numbers.begin(), numbers.end(), [](double number) { return !(std::abs(number) <= kMost); }))
    return false;
  shared_ = numbers.front();
  std::copy(numbers.begin() + 1, numbers.end(), own_.begin());
  return true;
}

}  // namespace troupe
