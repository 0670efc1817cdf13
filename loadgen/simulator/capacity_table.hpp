// SPDX-License-Identifier: Apache-2.0
// Shows what find_fewest_workers() found, a line a rate, as it is found.
#pragma once

#include <iosfwd>
#include <vector>

#include "loadgen/simulator/capacity_search.hpp"

namespace troupe::loadgen {

//   rate /s   workers    ttft_p99 (<= 500 ms)    with one worker less
//         4         3                  312 ms                  871 ms
class CapacityTable {
 public:
  explicit CapacityTable(std::vector<PercentileObjective> objectives);

  void print_head(std::ostream& out) const;
  void print_row(std::ostream& out, double rate, const CapacityAnswer& answer) const;
  // Not in the lines: how many requests could not be served by any number
  // of workers. Nothing if there were none.
  void print_foot(std::ostream& out, const CapacityAnswer& last) const;

 private:
  std::vector<PercentileObjective> objectives_;
};

}  // namespace troupe::loadgen
