// SPDX-License-Identifier: Apache-2.0
// How likely each length of an answer is: shares of bins (policy/lengths/length_bins.hpp), and within a
// bin all lengths alike. While an answer runs, a belief is filtered: the tokens that have come are
// taken off it, and the next look at the answer is pooled with the rest.
#pragma once

#include <array>
#include <cstdint>

#include "policy/lengths/length_bins.hpp"

namespace troupe {

class LengthBelief {
 public:
  using Shares = std::array<double, kNumLengthBins>;  // of no particular sum

  explicit LengthBelief(const Shares& shares);

  // The length that a share `rank` of such answers does not exceed, at least 1.
  std::uint32_t quantile(double rank) const;

  // The belief in how many tokens follow on the first num_tokens, where at least one does. If none was to
  // follow, all lengths are alike.
  LengthBelief behind(std::uint32_t num_tokens) const;

  // The geometric mean of both. Looks at one answer see much the same: their product, as of independent
  // ones, would be ever surer of what they have in common.
  LengthBelief pooled(const LengthBelief& other) const;

  const Shares& shares() const { return shares_; }  // they add up to 1

 private:
  double share_below(double length) const;

  Shares shares_ = {};
};

}  // namespace troupe
