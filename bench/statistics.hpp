// SPDX-License-Identifier: Apache-2.0
// Statistics that a benchmark prints of its samples.
#pragma once

#include <algorithm>
#include <vector>

namespace troupe::bench {

struct Spread {
  double minimum = 0, median = 0, maximum = 0;
};

// samples: at least one.
inline Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples.front(), samples[samples.size() / 2], samples.back()};
}

}  // namespace troupe::bench
