// SPDX-License-Identifier: Apache-2.0
// The quantile of an answer's forecast that is set aside, from the costs of too little and too much of late
// (the newsvendor's rule), each a token, in the device's time:
//
//   quantile = too little / (too little + too much)
//
// Too much is a part of the memory that is not used while the answer runs: it costs that part of the time.
// Too little is the time that brings back what preempted answers gave up, divided among all tokens that were
// too few, as most of those answers find room to grow. Where pages come back over a fast link that is little,
// and so is what is set aside; where they are computed anew, and prompts are dear, it is more.
#pragma once

#include <cstdint>

namespace troupe {

// One answer's, known at its end. Nanoseconds of the device.
struct ReservationCosts {
  double unused_token = 0;  // a token that was set aside and not used; 0: not known
  double brought_back = 0;  // all that it gave up when it was preempted, for another's turn as well
};

class ReservedQuantile {
 public:
  static constexpr double kFirst = 0.6;  // while no costs are known
  static constexpr double kLeast = 0.2, kMost = 0.95;
  static constexpr double kStep = 0.005;    // at most, with an answer: guesses are judged by one quantile
  static constexpr double kFollow = 0.005;  // share of the newest answer in the costs, at least

  // 0: as costs say. Else it stays.
  explicit ReservedQuantile(double fixed) : is_fixed_(fixed > 0), value_(is_fixed_ ? fixed : kFirst) {}

  // too_few: tokens that it had beyond its reservation. Costs that are not known change nothing.
  void observe(const ReservationCosts& costs, std::uint32_t too_few);

  double value() const { return value_; }

 private:
  bool is_fixed_;
  double value_;
  std::uint64_t num_known_ = 0;  // answers with costs
  // Means over these, newer ones count more; no token too few: nothing is known yet.
  double unused_token_ = 0, brought_back_ = 0, too_few_ = 0;
};

}  // namespace troupe
