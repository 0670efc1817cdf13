// SPDX-License-Identifier: Apache-2.0
// How two arms of an experiment differ, seed by seed: equal seeds are equal traffic, so
// the difference of a pair is free of what differs between seeds. Student's interval of
// the mean difference says whether it may be chance.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace troupe::loadgen {

struct PairedDifference {
  double base = 0, other = 0;  // means over the pairs
  double low = 0, high = 0;    // of other - base, with 95 % confidence; infinite for fewer than two pairs
  std::size_t count = 0;       // pairs
  std::size_t num_endless_base = 0, num_endless_other = 0;  // of them, infinite

  // No mean is infinite: they can be compared.
  bool is_finite() const { return num_endless_base + num_endless_other == 0; }

  // The interval lies on one side of zero.
  bool is_known() const { return low > 0 || high < 0; }
};

// Pairs of base and other. Where one is infinite in a pair, the interval has no bounds, but
// if the other never is: then the arms differ without end.
PairedDifference paired_difference(std::span<const std::pair<double, double>> pairs);

}  // namespace troupe::loadgen
