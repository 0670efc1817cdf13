// SPDX-License-Identifier: Apache-2.0
// Keeps the share of guesses that suffice at what is asked for, whatever the guesser does, also under
// drift, and of short guesses as of long ones. Conformal control (Gibbs and Candes, 2021) by the size of
// the guess: a factor grows with each answer that was longer and shrinks with each that was not. The
// factor is a line over the guess's logarithm with a knot at each doubling, so what fails at 1,000 tokens
// is not made up for at ten. A part of each step moves all knots: a size that was never guessed has the
// others' factor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

// Tokens. A guess of no less than there can be is no guess: all of it is reserved.
struct CalibratedGuess {
  std::uint32_t guess = 0;     // as it was made
  std::uint32_t most = 0;      // that there can be
  std::uint32_t reserved = 0;  // from 1 to most; 0: there is no guess
};

class Calibration {
 public:
  static constexpr std::size_t kNumKnots = 17;  // at 1, 2, 4 … 65,536 tokens
  static constexpr std::size_t kNumNumbers = kNumKnots + 1;
  static constexpr double kOwnStep = 0.06;     // of a knot's logarithm
  static constexpr double kSharedStep = 0.02;  // of all knots'
  static constexpr double kMost = 3;           // of each of the two: e^3 is 20 times

  explicit Calibration(double quantile) : quantile_(quantile) {}

  // From now on this share of guesses is to suffice.
  void aim_at(double quantile) { quantile_ = quantile; }

  CalibratedGuess apply(std::uint32_t guess, std::uint32_t most) const;
  // At a reservation of one token nothing more is taken off.
  void learn(const CalibratedGuess& guess, bool has_fitted);

  double log_factor(std::uint32_t guess) const;

  // All that it knows, and back; false: that is not what numbers() gave.
  std::array<double, kNumNumbers> numbers() const;
  bool restore(std::span<const double> numbers);

 private:
  struct Place {
    std::size_t knot = 0;  // and the next one
    double share = 0;      // of the next one, in [0, 1]
  };
  static Place place_of(std::uint32_t guess);

  double quantile_;
  double shared_ = 0;
  std::array<double, kNumKnots> own_ = {};
};

}  // namespace troupe
