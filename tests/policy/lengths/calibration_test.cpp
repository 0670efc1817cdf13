// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/calibration.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace troupe {
namespace {

constexpr std::uint32_t kMost = 100'000;

// Lengths around the guess with a spread that depends on it, and the guess itself off by a factor that does.
struct Traffic {
  Calibration calibration;
  std::mt19937_64 random{3};

  struct Seen {
    std::uint32_t guess = 0;
    bool has_fitted = false;
  };
  Seen answer(double log_guess, double bias, double spread) {
    const auto guess = static_cast<std::uint32_t>(std::exp(log_guess));
    const double length = guess * std::exp(bias + spread * std::normal_distribution<double>()(random));
    const CalibratedGuess calibrated = calibration.apply(guess, kMost);
    const bool has_fitted = std::ceil(length) <= calibrated.reserved;
    calibration.learn(calibrated, has_fitted);
    return {.guess = guess, .has_fitted = has_fitted};
  }
};

TEST_CASE(
    "calibration: of each tenth of guesses the wanted share fits, whatever spreads and biases they have") {
  for (const double quantile : {0.5, 0.6, 0.9})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Traffic traffic{.calibration = Calibration(quantile), .random = std::mt19937_64(seed)};
      std::uniform_real_distribution<double> log_guess(std::log(16), std::log(4000));
      std::vector<Traffic::Seen> all;
      for (int i = 0; i < 12'000; ++i) {
        const double at = log_guess(traffic.random);
        const double place = (at - std::log(16)) / std::log(250);  // from 0 to 1
        const auto seen = traffic.answer(at, 0.8 * place - 0.4, 0.1 + 1.1 * place);
        if (i >= 2000) all.push_back(seen);
      }
      std::stable_sort(all.begin(), all.end(),
                       [](const auto& a, const auto& b) { return a.guess < b.guess; });
      for (std::size_t tenth = 0; tenth < 10; ++tenth) {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(all.size() * tenth / 10);
        const auto num_fitted =
            std::count_if(first, first + 1000, [](const auto& seen) { return seen.has_fitted; });
        CAPTURE(quantile);
        CAPTURE(seed);
        CAPTURE(tenth);
        CHECK(std::abs(static_cast<double>(num_fitted) / 1000 - quantile) < 0.06);
      }
    }
}

TEST_CASE("calibration: a size that was never guessed has what all others have in common") {
  Traffic traffic{.calibration = Calibration(0.6)};
  for (int i = 0; i < 500; ++i) traffic.answer(std::log(100), 1, 0.1);  // e times as long
  CHECK(traffic.calibration.log_factor(100) == doctest::Approx(1).epsilon(0.2));
  CHECK(traffic.calibration.log_factor(8000) > 0.15);
  CHECK(traffic.calibration.log_factor(8000) < 1);
}

TEST_CASE("calibration: what is reserved is at least one token and at most what there can be") {
  Calibration calibration(0.6);
  CHECK(calibration.apply(1, 5).reserved == 1);
  for (int i = 0; i < 1000; ++i) calibration.learn({.guess = 1, .most = 5, .reserved = 2}, false);
  CHECK(calibration.apply(1, 5).reserved == 5);
  for (int i = 0; i < 1000; ++i) calibration.learn({.guess = 1, .most = 5, .reserved = 2}, true);
  CHECK(calibration.apply(1, 5).reserved == 1);
  const double before = calibration.log_factor(1);
  calibration.learn({.guess = 1, .most = 5, .reserved = 1}, true);  // less can't be set aside
  CHECK(calibration.log_factor(1) == before);
}

TEST_CASE("calibration: a guess at all that there can be is no guess, and nothing is learnt of it") {
  Calibration calibration(0.6);
  for (int i = 0; i < 100; ++i) calibration.learn(calibration.apply(64, 64), true);
  CHECK(calibration.log_factor(64) == 0);
  for (int i = 0; i < 10; ++i) calibration.learn({.guess = 64, .most = 100, .reserved = 64}, true);
  CHECK(calibration.apply(64, 64).reserved == 64);
  CHECK(calibration.apply(64, 100).reserved < 64);
}

TEST_CASE("calibration: it is the same after a restart, and what can't be is refused") {
  Traffic traffic{.calibration = Calibration(0.6)};
  for (int i = 0; i < 300; ++i) traffic.answer(3 + i % 5, 0.3, 0.5);
  auto numbers = traffic.calibration.numbers();
  Calibration restored(0.6);
  REQUIRE(restored.restore(numbers));
  CHECK(restored.apply(77, kMost).reserved == traffic.calibration.apply(77, kMost).reserved);
  CHECK_FALSE(restored.restore(std::span(numbers).first(3)));
  numbers[4] = std::nan("");
  CHECK_FALSE(restored.restore(numbers));
}

}  // namespace
}  // namespace troupe
