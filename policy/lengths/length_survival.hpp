// SPDX-License-Identifier: Apache-2.0
// The cost of a guess at an answer that was cut off, judged by the answers that went on: Kaplan and Meier's
// estimate says how long those are that are longer than it was. Where clients leave, answers that ended by
// themselves are the short ones, and a choice by them alone would be for the shortest guess; a cut-off answer
// that counted with its least loss would speak for the longest one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/lengths/censored_lengths.hpp"

namespace troupe {

class LengthSurvival {
 public:
  LengthSurvival() = default;
  explicit LengthSurvival(std::span<const SeenLength> sorted);  // by is_shorter()

  // The pinball loss of the guess, in tokens; of an answer that was cut off, which is one of those above, the
  // expected one. The share of which nothing is known but that it is longer than all that was seen counts
  // half as if it ended there and half at `longest`: any length beyond costs all guesses up to that as much
  // more.
  double loss(double rank, std::uint32_t guess, SeenLength length, std::uint32_t longest) const;
  // The least length that a share `rank` of answers does not exceed, or the longest that was seen; 0: none
  // was.
  std::uint32_t quantile(double rank) const;

 private:
  // An answer that ended by itself, with sums over the longer ones.
  struct Place {
    std::uint32_t num_tokens = 0;
    double share = 0;   // of answers
    double tokens = 0;  // share times length
  };

  Place beyond(std::uint32_t num_tokens) const;
  double known_loss(double rank, std::uint32_t guess, std::uint32_t seen) const;

  std::vector<Place> places_;    // ascending; the first one is at 0
  double unknown_ = 1;           // share longer than all that was seen
  std::uint32_t last_seen_ = 0;  // length
};

}  // namespace troupe
